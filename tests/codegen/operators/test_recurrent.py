"""Recurrent networks in C."""

from typing import Any

import numpy as np
import pytest

from tests.support.c_cases import Case, Known, Operand, assert_as_onnxruntime, refusal, run_cases
from tests.support.c_programs import FLAGS

RNG = np.random.default_rng(0)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = ("forward", "reverse", "bidirectional")


def array(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, size=shape).astype(np.float32)


def network(
    operator: str,
    length: int = 1,
    batch: int = 1,
    *,
    inputs: int = 5,
    hidden: int = 6,
    with_states: bool = True,
    with_bias: bool = True,
    direction: str = "forward",
    **attributes: Any,
) -> Case:
    count, gates = (2 if direction == "bidirectional" else 1), GATES[operator] * hidden
    operands: list[Operand] = [
        array(length, batch, inputs),
        Known(array(count, gates, inputs)),
        Known(array(count, gates, hidden)),
        Known(array(count, 2 * gates)) if with_bias else None,
        None,
    ]
    states = 2 if operator == "LSTM" else 1
    if with_states:
        operands += [array(count, batch, hidden) for _ in range(states)]
    form = {"hidden_size": hidden, "direction": direction, **attributes}
    return Case(operator, operands, form, outputs=1 + states)


def forms(operator: str, **attributes: Any) -> list[Case]:
    return [
        network(operator, length, batch, with_states=kept, with_bias=kept, direction=direction, **attributes)
        for direction in DIRECTIONS
        for length, batch in ((1, 1), (1, 3), (4, 1), (3, 2))
        for kept in (True, False)
    ] + [network(operator, inputs=20, hidden=70, length=2, **attributes)]


@pytest.mark.parametrize("operator", GATES)
def test_all_directions_lengths_batches_and_states(operator: str):
    assert_as_onnxruntime(forms(operator), tolerance=4e-6)


def test_the_reset_gate_may_come_after_the_product():
    assert_as_onnxruntime(forms("GRU", linear_before_reset=1), tolerance=4e-6)


def test_lengths_that_are_all_the_same_and_usual_activations_may_be_given():
    plain = network("LSTM", 3, 2)
    lengths = Known(np.array([3, 3], np.int32))
    given = Case("LSTM", [*plain.operands[:4], lengths, *plain.operands[5:]], plain.attributes, outputs=3)
    named = network("GRU", activations=["Sigmoid", "Tanh"])
    assert_as_onnxruntime([given, named], tolerance=4e-6)


def test_nan_in_an_input_reaches_the_state():
    cases = [network(operator, with_states=False) for operator in GATES]
    for case in cases:
        operand = case.operands[0]
        assert isinstance(operand, np.ndarray)
        operand[0, 0, 2] = np.nan
    for results in run_cases(cases):
        assert np.isnan(results[-1]).all()


def test_each_build_gives_the_same_bits():
    cases = [network(operator, 2, hidden=70) for operator in GATES]
    plain = run_cases(cases, flags=(*FLAGS, "-O0"))
    fast = run_cases(cases, flags=(*FLAGS, "-O3", "-march=x86-64-v3"))
    for mine, theirs in zip(plain, fast, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert one.tobytes() == other.tobytes()


REFUSED: dict[str, tuple[str, dict[str, Any], dict[int, Operand]]] = {
    "LSTM with peepholes": ("LSTM", {}, {7: np.zeros((1, 18), np.float32)}),
    "LSTM with input_forget": ("LSTM", {"input_forget": 1}, {}),
    "GRU with clip": ("GRU", {"clip": 1.0}, {}),
    "RNN with layout 1": ("RNN", {"layout": 1}, {}),
    "RNN with activations relu": ("RNN", {"activations": ["Relu"]}, {}),
    "GRU whose lengths of sequences are computed": ("GRU", {}, {4: np.ones(1, np.int32)}),
    "GRU whose sequences have different lengths": ("GRU", {}, {4: Known(np.zeros(1, np.int32))}),
    "LSTM whose weights are computed": ("LSTM", {}, {2: np.zeros((1, 24, 6), np.float32)}),
}


@pytest.mark.parametrize("form", REFUSED)
def test_other_forms_are_refused(form: str):
    operator, attributes, others = REFUSED[form]
    plain = network(operator)
    operands = [*plain.operands, *[None] * (8 - len(plain.operands))]
    for place, operand in others.items():
        operands[place] = operand
    while operands[-1] is None:
        operands.pop()
    case = Case(operator, operands, plain.attributes | attributes, outputs=plain.outputs)
    assert f"operator {form} (of " in refusal(case)
