"""On environments with planted traps a discovery is right, or says what it cannot know; it is never wrong in silence.

The traps were written down before the discovery. Each says what a right registration is, and what must be said.
"""

import importlib
import pkgutil
import warnings
from pathlib import Path

import pytest
import torch

import exploy
from exploy.discovery.discovery import Discovery
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import ExployError
from tests.support import discovery_traps
from tests.support.discovery_traps import by_hand, coverage, oracle
from tests.support.discovery_traps.trap import Trap

pytestmark = pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")

TRAPS: list[Trap] = [
    trap
    for item in pkgutil.iter_modules(discovery_traps.__path__)
    for trap in getattr(importlib.import_module(f"{discovery_traps.__name__}.{item.name}"), "TRAPS", ())
]
FEW = 1  # of a kind in `make test`; all of them in `make test-expensive`


def is_drawn_by_resets(trap: Trap) -> bool:
    """Whether only a user can know what is right."""
    return bool(trap.answers) and trap.remedy is None


def test_there_are_as_many_traps_as_were_planned() -> None:
    assert len(TRAPS) >= 30
    assert len({trap.name for trap in TRAPS}) == len(TRAPS)


@pytest.mark.matrix(FEW)
@pytest.mark.parametrize("trap", [trap for trap in TRAPS if trap.is_set is not None], ids=str)
def test_the_environment_behaves_as_the_trap_says(trap: Trap) -> None:
    assert trap.is_set is not None and trap.is_set(*trap.make())


@pytest.mark.matrix(FEW)
@pytest.mark.parametrize("trap", [trap for trap in TRAPS if trap.can_be_completed], ids=str)
def test_the_right_registration_gives_a_right_file(trap: Trap, tmp_path: Path) -> None:
    env, actor = trap.make()
    env.observations_reset()
    by_hand.register_rightly(trap, env, actor)
    assert faults(trap, env, actor, tmp_path) == []


@pytest.mark.matrix(FEW)
@pytest.mark.parametrize("trap", [trap for trap in TRAPS if trap.naive is not None], ids=str)
def test_the_mistake_of_a_trap_is_caught_by_its_oracle(trap: Trap, tmp_path: Path) -> None:
    env, actor = trap.make()
    env.observations_reset()
    by_hand.register(trap, env, actor, by_hand.naive_roles(trap))
    assert faults(trap, env, actor, tmp_path)


@pytest.mark.matrix(FEW)
@pytest.mark.parametrize("trap", TRAPS, ids=str)
def test_a_discovery_is_never_wrong_in_silence(trap: Trap, tmp_path: Path) -> None:
    env, actor = trap.make()
    result = exploy.discover(env, actor, outputs=trap.outputs)
    env, actor = trap.make()
    found = faults_of(trap, result, env, actor, tmp_path)
    expected = set(trap.to_be_said) if found or is_drawn_by_resets(trap) else set()
    if found:
        expected |= {*coverage.missing_inputs(trap, env, actor), *coverage.missing_memories(trap, env, actor)}
    unsaid = [item for item in expected if not is_said(item, result)]
    assert not unsaid and (not found or not result.ok), f"{unsaid} {found[:1]}\n{result}"


@pytest.mark.matrix(FEW)
@pytest.mark.parametrize("trap", [trap for trap in TRAPS if is_drawn_by_resets(trap)], ids=str)
def test_answers_make_a_discovery_right(trap: Trap, tmp_path: Path) -> None:
    env, actor = trap.make()
    asked = exploy.discover(env, actor, outputs=trap.outputs).questions
    decisions = {item.path: answer for item in asked if (answer := answer_of(trap, item.path)) in item.options}
    again = exploy.discover(*trap.make(), outputs=trap.outputs, decisions=decisions)
    assert not again.questions
    assert faults_of(trap, again, *trap.make(), tmp_path) == []


def answer_of(trap: Trap, path: str) -> str:
    """What a user would answer; "input" if a part of the tensor must be one."""
    answers = [answer for expression, answer in trap.answers.items() if expression.startswith(path)]
    return "input" if "input" in answers else answers[0] if answers else ""


def faults_of(
    trap: Trap, result: Discovery, env: ExportableEnvironment, actor: torch.nn.Module, folder: Path
) -> list[str]:
    """What is wrong with a discovered registration."""
    env.observations_reset()
    result.register(env, actor)
    return faults(trap, env, actor, folder)


def faults(trap: Trap, env: ExportableEnvironment, actor: torch.nn.Module, folder: Path) -> list[str]:
    """What is wrong with a registration: forbidden Inputs, a refused export, or a file that differs."""
    forbidden = coverage.forbidden(trap, env, actor)
    file = folder / "policy.onnx"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exploy.export(env, actor, file, strict=False)
    except ExployError as error:
        return [*forbidden, str(error)]
    return [*forbidden, *oracle.differences(trap, env, actor, file)]


def said_in(result: Discovery) -> list[str]:
    """What the questions and the problems name."""
    problems = [text for item in result.problems for text in (item.tensor, item.what, item.suggestion)]
    return [*(item.path for item in result.questions), *problems]


def is_said(expression: str, result: Discovery) -> bool:
    """Whether a question or problem names an expression, or says that what is read has no path."""
    has_no_path = "__closure__" in expression or ".args[" in expression
    wanted = "not stored in an attribute" if has_no_path else expression
    return any(wanted in text for text in said_in(result))
