"""Runs calls of operators in torch and in a file made of them, and says how the two compare."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from onnxruntime import InferenceSession
from torch.utils import _pytree

from exploy.backends.onnx.exact_operators import replace_inexact_operators
from exploy.backends.onnx.file import serialize
from exploy.backends.onnx.joined_steps import join_steps
from exploy.backends.onnx.lowering import lower
from exploy.backends.onnx.versions import IR_VERSION, OPSET_VERSION
from exploy.capture.capture import capture
from exploy.capture.program import Program
from exploy.errors import ExployError
from exploy.exporter.core.components import Input, Output
from exploy.runtime.onnx.graph_checks import require_sound
from exploy.runtime.onnx.outline import Outline
from exploy.runtime.onnx.session import open_session
from tests.support.environments import TestEnvironment, make_actor
from tests.support.operator_cases import Case

RIGHT, REFUSED, WRONG = "right", "refused", "wrong"
_AT_ONCE = 24


@dataclass(frozen=True)
class Outcome:
    """How a case ended: right, refused or wrong, with the message or the first values that differ.

    `is_rewritten` tells whether operators were replaced by others that have a right ONNX form.
    """

    verdict: str
    detail: str = ""
    is_rewritten: bool = False


class Calling(TestEnvironment):
    """Calls operators between Inputs and Outputs."""

    num_observations = 2

    def __init__(self, cases: Sequence[Case]):
        super().__init__(decimation=1)
        self.cases = cases
        self.arguments = {
            f"x{number}.{index}": argument.clone()
            for number, case in enumerate(cases)
            for index, argument in enumerate(case.arguments)
        }
        self.results = self.compute()
        manager = self.context_manager()
        for name in self.arguments:
            manager.add_component(Input(name, lambda name=name: self.arguments[name]))  # type: ignore[misc]
        for name in self.results:
            manager.add_component(Output(name, lambda name=name: self.results[name]))  # type: ignore[misc]

    def compute(self) -> dict[str, torch.Tensor]:
        return {
            f"y{number}.{index}": result
            for number, case in enumerate(self.cases)
            for index, result in enumerate(
                results(case, [self.arguments[f"x{number}.{index}"] for index in range(len(case.arguments))])
            )
        }

    def observe(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def apply_actions(self) -> None:
        self.results = self.compute()

    def move(self) -> None:
        pass


def results(case: Case, arguments: Sequence[torch.Tensor] | None = None) -> list[torch.Tensor]:
    """What torch computes, as a list of tensors."""
    with torch.no_grad():
        found = case.function(*(case.arguments if arguments is None else arguments))
    return [item for item in _pytree.tree_leaves(found) if isinstance(item, torch.Tensor)]


def run_all(cases: Sequence[Case], *, one_by_one: bool = False) -> list[Outcome]:
    """Compare calls in torch with files: many calls in one file if all of them are right, or one by one."""
    outcomes: list[Outcome] = []
    for start in range(0, len(cases), _AT_ONCE):
        some = cases[start : start + _AT_ONCE]
        together = None if one_by_one else _run(some)
        is_right = together is not None and together.verdict == RIGHT
        outcomes += [together] * len(some) if together and is_right else [_run([case]) for case in some]
    return outcomes


def _run(cases: Sequence[Case]) -> Outcome:
    env = Calling(cases)
    expected = {name: value.numpy().copy() for name, value in env.results.items()}
    try:
        program, session = make_file(env)
    except ExployError as error:
        return Outcome(REFUSED, str(error))
    got = run_file(session, env.arguments)
    for number, case in enumerate(cases):
        for index, value in enumerate(expected[f"y{number}.{i}"] for i in range(len(results(case)))):
            found = _first_wrong(case, index, got[f"y{number}.{index}"], value)
            if found:
                return Outcome(WRONG, found)
    return Outcome(RIGHT, is_rewritten=_is_rewritten(program))


def make_file(env: TestEnvironment) -> tuple[Program, InferenceSession]:
    """Capture an environment that calls torch in its actions, and lower it; raises ExployError if it is refused."""
    program = capture(env, make_actor(2))
    model = join_steps(lower(program, OPSET_VERSION, IR_VERSION), program, decimation=1).model
    data = serialize(model)
    require_sound(Outline.parse(data))
    return program, open_session(data, threads=1, spinning=False)


def run_file(session: InferenceSession, arguments: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """What the file gives, by the names of its outputs; it may leave out arguments that it does not read."""
    given = {item.name for item in session.get_inputs()}
    values: dict[str, Any] = {name: value.numpy() for name, value in arguments.items() if name in given}
    values |= {"ctx.step_count": np.array(0, np.int32)} if "ctx.step_count" in given else {}
    return dict(zip([item.name for item in session.get_outputs()], session.run(None, values), strict=True))


def _is_rewritten(program: Program) -> bool:
    module = copy.deepcopy(program.module)
    return bool(replace_inexact_operators(module, tuple(program.examples.values())))


def _first_wrong(case: Case, index: int, got: np.ndarray, expected: np.ndarray) -> str | None:
    for where, mine, theirs in differences(got, expected):
        if not _is_torch_of_one_element(case, index, where, mine):
            return f"result {index} at {where}{_inputs_at(case, where, expected)}: {mine} instead of {theirs}"
    return None


def _is_torch_of_one_element(case: Case, index: int, where: tuple[int, ...], mine: Any) -> bool:
    """Whether torch gives this value for the element alone: its code for one element is not that for many."""
    expected = results(case)[index]
    if not where or any(argument.shape != expected.shape for argument in case.arguments):
        return False
    alone = results(case, [argument[where].reshape(1) for argument in case.arguments])[index].numpy()
    return alone.shape == (1,) and not differences(np.array([mine], alone.dtype), alone)


def _inputs_at(case: Case, where: tuple[int, ...], value: np.ndarray) -> str:
    same = [argument for argument in case.arguments if tuple(argument.shape) == value.shape]
    return f" of {[argument[where].item() for argument in same]}" if len(same) == len(case.arguments) else ""


def differences(got: np.ndarray, expected: np.ndarray) -> list[tuple[tuple[int, ...], Any, Any]]:
    """The places where a value is another one: NaN, infinities, integers and flags exactly, floats by rounding."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return [((), f"{got.dtype} {got.shape}", f"{expected.dtype} {expected.shape}")]
    if expected.dtype.kind != "f":
        differs = got != expected
    else:
        tolerance = {2: 2e-3, 4: 2e-5, 8: 1e-9}[expected.dtype.itemsize]
        differs = ~np.isclose(got, expected, rtol=tolerance, atol=tolerance / 10, equal_nan=True)
    places = [tuple(int(index) for index in place) for place in np.argwhere(differs)]
    return [(place, got[place], expected[place]) for place in places]
