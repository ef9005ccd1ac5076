"""Calls of single operators, many of which are emitted, compiled and run as one program."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
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
    nodes, inputs, constants, outputs = [], {}, {}, []
    for number, call in enumerate(calls):
        names = []
        for place, item in enumerate(call.operands):
            name = "" if item is None else f"x{number}_{place}"
            names.append(name)
            if isinstance(item, Known):
                constants[name] = item.array
            elif item is not None:
                inputs[name] = item
        results = [f"y{number}_{place}" for place in range(call.outputs)]
        outputs.append(results)
        nodes.append(helper.make_node(call.op_type, names, results, **call.attributes))
    model = model_of(nodes, inputs, [name for results in outputs for name in results], constants)
    ours, theirs = run_c(model, inputs), run_onnxruntime(model, inputs)
    return [[(ours[name], theirs[name]) for name in results] for results in outputs]
