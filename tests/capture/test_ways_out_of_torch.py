"""Every known way out of torch is followed, refused with its line, or listed as frozen."""

from pathlib import Path

import pytest
import torch

from exploy.capture.capture import capture
from exploy.errors import CaptureError, VerificationError
from tests.support import ways_out_of_torch
from tests.support.environments import export, make_actor
from tests.support.ways_out_of_torch import WAYS, OneExpression, Outcome, Way
from tools.ways_out_of_torch import PAGE, page

ROWS = [way for ways in WAYS.values() for way in ways]
OTHER_VALUES = {"state": torch.tensor([[-1.5, 2.5]]), "counts": torch.tensor([1, 0])}

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array"),  # numpy, of tensors
    pytest.mark.filterwarnings("ignore:To copy construct from a tensor"),
]


def outcome(env: OneExpression) -> Outcome:
    """What a capture does with the expression of an environment."""
    try:
        program = capture(env, make_actor(2).eval())
    except CaptureError as error:
        names_line = f"{Path(ways_out_of_torch.__file__).name}:" in str(error)
        return Outcome.REFUSED if names_line else pytest.fail(f"the error does not name the line: {error}")
    if any(item.name in ("env.setting", "env.numbers") for item in program.frozen):
        return Outcome.FROZEN
    env.state.copy_(OTHER_VALUES["state"])
    env.counts.copy_(OTHER_VALUES["counts"])
    values = program.examples | {name: value for name, value in OTHER_VALUES.items() if name in program.input_names}
    if not torch.allclose(program.run(values)[0]["obs"], env.observe()):
        return Outcome.COMPARISON
    return Outcome.FOLLOWED


@pytest.mark.parametrize("way", ROWS, ids=lambda way: way.code)
def test_a_value_that_depends_on_an_input_does_not_leave_torch_unseen(way: Way):
    expected = Outcome.FOLLOWED if way.of_input is Outcome.NO_VALUE else way.of_input
    assert outcome(OneExpression(way.code, of_input=True)) is expected


@pytest.mark.parametrize("way", ROWS, ids=lambda way: way.code)
def test_a_constant_that_leaves_torch_is_listed(way: Way):
    expected = Outcome.FOLLOWED if way.of_constant is Outcome.NO_VALUE else way.of_constant
    assert outcome(OneExpression(way.code, of_input=False)) is expected


@pytest.mark.parametrize("way", [way for way in ROWS if way.of_input is Outcome.COMPARISON], ids=lambda way: way.code)
def test_what_a_capture_cannot_see_is_refused_by_the_comparison(way: Way, tmp_path: Path):
    with pytest.raises(VerificationError, match="obs"):
        export(OneExpression(way.code, of_input=True), make_actor(2), tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_page_of_the_documentation_is_this_table():
    """Print it with `python -m tools.ways_out_of_torch`."""
    assert PAGE.read_text() == page()
