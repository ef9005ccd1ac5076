"""Many cases of operators in one program of C, for compiling is what takes time in tests of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from exploy.codegen.program import write_program
from exploy.contract import Contract, Port
from exploy.errors import LoweringError
from exploy.runtime.c import machine
from tests.support.c_programs import FLAGS, OPSET, model_of, run_c, run_onnxruntime


@dataclass(frozen=True)
class Known:
    """An operand whose numbers are in the file."""

    array: np.ndarray


_FASTER = [("-O3", f"-march={level}", "-mprefer-vector-width=512") for level in machine.levels()]
BUILDS = (("-O0",), ("-O3",), *_FASTER)  # which give the same bits

Operand = np.ndarray | Known | None


@dataclass(frozen=True)
class Case:
    """An operator with operands: given to the program, known, or left out.

    Args:
        operator: The operator of ONNX.
        operands: Its operands.
        attributes: Its attributes.
        outputs: How many results it has.
        expected: The results, where onnxruntime is not to be asked.
    """

    operator: str
    operands: Sequence[Operand]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    expected: Sequence[np.ndarray] | None = None


def model_of_cases(
    cases: Sequence[Case], opset: int = OPSET
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[list[str]]]:
    """One model of all cases, its inputs, and the names of the results of each case."""
    nodes, inputs, constants, results = [], {}, {}, []
    for number, case in enumerate(cases):
        names = []
        for place, operand in enumerate(case.operands):
            name = "" if operand is None else f"case{number}_{place}"
            names.append(name)
            if isinstance(operand, Known):
                constants[name] = operand.array
            elif operand is not None:
                inputs[name] = operand
        outputs = [f"case{number}_y{place}" for place in range(case.outputs)]
        nodes.append(helper.make_node(case.operator, names, outputs, **case.attributes))
        results.append(outputs)
    names = [name for outputs in results for name in outputs]
    model = model_of(nodes, inputs, names, constants, opset)
    for output in model.graph.output:  # onnx does not infer the results of some operators
        kind = output.type.tensor_type
        kind.elem_type = kind.elem_type or onnx.TensorProto.FLOAT
    return model, inputs, results


def run_cases(cases: Sequence[Case], opset: int = OPSET, flags: Sequence[str] = FLAGS) -> list[list[np.ndarray]]:
    """What the C code of the cases computes."""
    model, inputs, results = model_of_cases(cases, opset)
    got = run_c(model, inputs, flags)
    return [[got[name] for name in names] for names in results]


def assert_as_onnxruntime(cases: Sequence[Case], tolerance: float = 2e-6, opset: int = OPSET) -> None:
    """All cases give what onnxruntime gives, but for rounding relative to the largest result."""
    model, inputs, results = model_of_cases(cases, opset)
    wanted = {
        name: array
        for case, names in zip(cases, results, strict=True)
        for name, array in zip(names, case.expected or (), strict=False)
    }
    if any(case.expected is None for case in cases):
        wanted = run_onnxruntime(model, inputs) | wanted
    got = run_c(model, inputs, expected=wanted)
    for case, names in zip(cases, results, strict=True):
        told = f"{case.operator} {case.attributes} of {[_kind(operand) for operand in case.operands]}"
        for name in names:
            expected = wanted[name]
            finite = expected[np.isfinite(expected)] if expected.dtype.kind == "f" else expected
            scale = float(np.abs(finite).max(initial=0))
            np.testing.assert_allclose(
                got[name].reshape(expected.shape), expected, rtol=tolerance, atol=tolerance * scale, err_msg=told
            )


def assert_same_bits(cases: Sequence[Case]) -> None:
    """All builds of the cases give the same bits."""
    results = [run_cases(cases, flags=(*FLAGS, *flags)) for flags in BUILDS]
    for other in results[1:]:
        for case, mine, theirs in zip(cases, results[0], other, strict=True):
            assert [array.tobytes() for array in mine] == [array.tobytes() for array in theirs], case.operator


def refusal(case: Case, opset: int = OPSET) -> str:
    """Why C code cannot be written for a case.

    Raises:
        AssertionError: If it can.
    """
    model, inputs, results = model_of_cases([case], opset)
    ports = tuple(Port(name, item.dtype.name, item.shape) for name, item in inputs.items())
    outputs = tuple(Port(name, "float32", (1,)) for name in results[0])
    contract = Contract(decimation=1, inputs=ports, outputs=outputs, memories=())
    try:
        write_program(model.SerializeToString(), contract, "tried")
    except LoweringError as error:
        return str(error)
    raise AssertionError(f"{case.operator} is not refused")


def _kind(operand: Operand) -> str:
    if operand is None:
        return "nothing"
    if isinstance(operand, Known):
        return f"known {operand.array.dtype}{list(operand.array.shape)}"
    return f"{operand.dtype}{list(operand.shape)}"
