"""Runs a call of an operator in torch and in a file made of it, and says how the two compare."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from exploy.backends.onnx.backend import OnnxBackend
from exploy.capture.capture import capture
from exploy.errors import ExployError
from exploy.exporter.core.components import Input, Output
from exploy.runtime.onnx.session import load_onnxruntime
from tests.support.environments import TestEnvironment, make_actor
from tests.support.operator_cases import Case

RIGHT, REFUSED, WRONG = "right", "refused", "wrong"


@dataclass(frozen=True)
class Outcome:
    """How a case ended: right, refused or wrong, with the message or the first values that differ."""

    verdict: str
    detail: str = ""


class _Calling(TestEnvironment):
    """Calls an operator between Inputs and Outputs."""

    num_observations = 2

    def __init__(self, case: Case):
        super().__init__(decimation=1)
        self.case = case
        self.arguments = [argument.clone() for argument in case.arguments]
        self.results = [item.clone() for item in results(case)]
        manager = self.context_manager()
        for index in range(len(self.arguments)):
            manager.add_component(Input(f"x{index}", lambda index=index: self.arguments[index]))  # type: ignore[misc]
        for index in range(len(self.results)):
            manager.add_component(Output(f"y{index}", lambda index=index: self.results[index]))  # type: ignore[misc]

    def observe(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def apply_actions(self) -> None:
        self.results = results(self.case, self.arguments)

    def move(self) -> None:
        pass


def results(case: Case, arguments: Any = None) -> list[torch.Tensor]:
    """What torch computes, as a list of tensors."""
    with torch.no_grad():
        found = case.function(*(case.arguments if arguments is None else arguments))
    return [item for item in _pytree.tree_leaves(found) if isinstance(item, torch.Tensor)]


def run(case: Case) -> Outcome:
    """Compare the call in torch with the file."""
    expected = [item.detach().numpy() for item in results(case)]
    env = _Calling(case)
    try:
        program = capture(env, make_actor(2))
        artifact = OnnxBackend().lower(program, 1)
        data = artifact._model  # type: ignore[attr-defined]
    except ExployError as error:
        return Outcome(REFUSED, str(error))
    return _compared(data, case, expected)


def _compared(model: Any, case: Case, expected: list[np.ndarray]) -> Outcome:
    from exploy.backends.onnx.file import serialize

    runtime = load_onnxruntime()
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(serialize(model), options, providers=["CPUExecutionProvider"])
        feeds = {f"x{index}": value.numpy() for index, value in enumerate(case.arguments)}
        inputs = {item.name: item for item in session.get_inputs()}
        values = {name: feeds.get(name, _zeros(item)) for name, item in inputs.items()}
        got = dict(zip([item.name for item in session.get_outputs()], session.run(None, values), strict=True))
    except Exception as error:
        return Outcome(REFUSED, f"onnxruntime: {str(error)[:300]}")
    for index, value in enumerate(expected):
        for where, mine, theirs in differences(got[f"y{index}"], value):
            if not _is_torch_of_one_element(case, index, where, mine):
                inputs_there = _inputs_at(case, where, value)
                return Outcome(WRONG, f"result {index} at {where}{inputs_there}: {mine} instead of {theirs}")
    return Outcome(RIGHT)


def _is_torch_of_one_element(case: Case, index: int, where: tuple[int, ...], mine: Any) -> bool:
    """Whether torch gives this value for the element alone: its code for one element is not that for many."""
    expected = results(case)[index]
    if not where or any(argument.shape != expected.shape for argument in case.arguments):
        return False
    alone = results(case, [argument[where].reshape(1) for argument in case.arguments])[index].numpy()
    return alone.shape == (1,) and not differences(np.array([mine], alone.dtype), alone)


def _zeros(item: Any) -> np.ndarray:
    kinds = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(double)": np.float64}
    return np.zeros([size if isinstance(size, int) else 1 for size in item.shape], kinds.get(item.type, np.float32))


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
        tolerance = 2e-5 if expected.dtype.itemsize == 4 else 1e-9 if expected.dtype.itemsize == 8 else 2e-3
        differs = ~np.isclose(got, expected, rtol=tolerance, atol=tolerance / 10, equal_nan=True)
    places = [tuple(int(index) for index in place) for place in np.argwhere(differs)]
    return [(place, got[place], expected[place]) for place in places]
