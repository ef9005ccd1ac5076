"""Nothing that is damaged is accepted, and nothing else than our errors comes out: 1,000 cases of `tests.fuzz`."""

import pytest

from tests.fuzz.__main__ import shares
from tests.fuzz.workers import fuzz


def test_damaged_files_contracts_graphs_and_logs() -> None:
    result = fuzz(shares(1000))
    assert not result.failures, str(result)
    assert result.outcomes["sealed"]["refused"] > 240, str(result)
    assert result.outcomes["graph"]["refused"] > 100 and result.outcomes["graph"]["ran"] > 10, str(result)


@pytest.mark.expensive
def test_damaged_archives() -> None:
    result = fuzz({"archive": 100})
    assert not result.failures, str(result)
    assert result.outcomes["archive"]["refused"] > 50, str(result)
