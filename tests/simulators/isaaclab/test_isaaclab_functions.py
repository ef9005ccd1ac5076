"""Functions of Isaac Lab, unchanged, compute in a file what they compute in Isaac Lab."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.function_pages import count, row_of, section
from tests.support.isaaclab_functions import calls, close, functions
from tests.support.library_functions import Function

ALL = functions()
PAGE = (Path(__file__).parents[3] / "docs" / "functions_of_isaaclab.md").read_text()

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library and of warp


@pytest.fixture(scope="module", autouse=True)
def closed() -> Iterator[None]:
    yield
    close()


@pytest.mark.matrix(10)
@pytest.mark.parametrize("function", ALL, ids=lambda item: item.name)
def test_a_function_ends_as_the_page_says(function: Function):
    assert str(row_of(function, calls)) in section(PAGE, function.module).splitlines()


def test_all_functions_are_on_the_page_and_nearly_all_work():
    """Print it with `python -m tools.library_functions isaaclab`, in the venv of Isaac Lab."""
    modules = {function.module for function in ALL}
    assert PAGE.count("\n## ") == len(modules) and all(section(PAGE, module) for module in modules)
    assert PAGE.count("\n| `") == len(ALL)
    works, refused = count(PAGE)
    assert works / (works + refused) >= 0.95
