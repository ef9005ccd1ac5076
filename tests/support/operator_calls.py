"""Calls of single operators, many of which are emitted, compiled and run as one program."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.support.c_programs import model_of, run_c, run_onnxruntime


@dataclass(frozen=True)
class Known:
    """An operand that is constant, as sizes and axes are."""

    array: np.ndarray

    @classmethod
    def integers(cls, *numbers: int) -> "Known":
        """Some integers."""
        return cls(np.array(numbers, np.int64))


@dataclass(frozen=True)
class Call:
    """An operator with operands and attributes; None stands for an operand that is left out.

    Args:
        op_type: The operator.
        operands: What it gets.
        attributes: Its attributes.
        outputs: How many results it has.
        note: What is special about it.
    """

    op_type: str
    operands: Sequence[np.ndarray | Known | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    note: str = ""

    def __str__(self) -> str:
        kinds = "-".join(
            "none" if item is None else "known" if isinstance(item, Known) else f"{item.dtype}{list(item.shape)}"
            for item in self.operands
        )
        return "-".join(part for part in (self.op_type, kinds, self.note) if part).replace(" ", "")


def run_calls(calls: Sequence[Call]) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """What C and onnxruntime compute, for each output of each call."""
    model, inputs, outputs = _model(calls)
    ours, theirs = run_c(model, inputs), run_onnxruntime(model, inputs)
    return [[(ours[name], theirs[name]) for name in names] for names in outputs]


def run_call(call: Call) -> list[np.ndarray]:
    """What C alone computes for one call.

    Raises:
        LoweringError: If C code cannot be written for it.
        ContractError: If the code ends with a status other than OK.
    """
    model, inputs, outputs = _model([call])
    found = run_c(model, inputs)
    return [found[name] for name in outputs[0]]


def _model(calls: Sequence[Call]) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[list[str]]]:
    """A model of all calls, its inputs, and the names of the outputs of each call."""
    nodes: list[onnx.NodeProto] = []
    outputs: list[list[str]] = []
    inputs: dict[str, np.ndarray] = {}
    constants: dict[str, np.ndarray] = {}
    for number, call in enumerate(calls):
        operands = {f"x{number}_{place}": item for place, item in enumerate(call.operands)}
        inputs |= {name: item for name, item in operands.items() if isinstance(item, np.ndarray)}
        constants |= {name: item.array for name, item in operands.items() if isinstance(item, Known)}
        names = ["" if item is None else name for name, item in operands.items()]
        results = [f"y{number}_{place}" for place in range(call.outputs)]
        outputs.append(results)
        nodes.append(helper.make_node(call.op_type, names, results, **call.attributes))
    return model_of(nodes, inputs, [name for names in outputs for name in names], constants), inputs, outputs
