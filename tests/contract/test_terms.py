"""Terms of an observation, found in the names of its elements."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exploy.contract import ObservationTerm, terms_of


def shown(names: list[str]) -> list[tuple[str, int, int]]:
    return [(term.name, term.start, term.stop) for term in terms_of(names)]


@pytest.mark.parametrize(
    ("names", "terms"),
    [
        (["foo_0", "foo_1", "bar_0"], [("foo", 0, 2), ("bar", 2, 3)]),
        (["pos[0]", "pos[1]", "vel[0]", "vel[1]"], [("pos", 0, 2), ("vel", 2, 4)]),
        (["q.0", "q.1", "height"], [("q", 0, 2), ("height", 2, 3)]),
        (["x", "y", "z"], [("x", 0, 1), ("y", 1, 2), ("z", 2, 3)]),
        (["a_0", "a_2"], [("a", 0, 1), ("a_2", 1, 2)]),
        (["a_1", "a_2"], [("a_1", 0, 1), ("a_2", 1, 2)]),
        (["a_0", "a_0"], [("a", 0, 1), ("a", 1, 2)]),
        (["0", "1"], [("0", 0, 1), ("1", 1, 2)]),
        ([], []),
    ],
)
def test_elements_that_count_up_under_one_name_are_a_term(names: list[str], terms: list[tuple[str, int, int]]) -> None:
    assert shown(names) == terms


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(st.text("ab01_[]", max_size=4), max_size=8))
def test_terms_cover_every_element_once(names: list[str]) -> None:
    terms = terms_of(names)
    assert all(isinstance(term, ObservationTerm) for term in terms)
    assert [place for term in terms for place in range(term.start, term.stop)] == list(range(len(names)))
