"""The two tasks that most tests look at, exported once for all files of tests."""

import pytest

from tests.support.mjlab_exports import CART_POLE, G1, export_task
from tests.support.simulator_exports import Exported


@pytest.fixture(scope="session")
def cart_pole(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export_task(CART_POLE, tmp_path_factory.mktemp("cart_pole"))


@pytest.fixture(scope="session")
def g1(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return export_task(G1, tmp_path_factory.mktemp("g1"))
