"""Records the trace that is used to test a file without simulator and torch."""

import numpy as np
import torch

from exploy.capture.perturbation import Variation, around, as_found
from exploy.capture.program import Program
from exploy.comparison import difference
from exploy.contract import Contract, GoldenTrace, PortKind, encode_array
from exploy.environment.tensor_copies import to_numpy

MAX_BYTES = 1 << 18
MAX_BYTES_OF_ONE_TICK = 1 << 23  # images
_MAX_TICKS = 200
_POLICY_STEPS = 3
_TOLERANCE = 1e-4  # other processors may add numbers in a different order
_ROUNDINGS = 10
_DISTURBANCE = 1e-5

Values = dict[str, np.ndarray]
Steps = list[tuple[Values, Values]]


def record_trace(program: Program, contract: Contract) -> GoldenTrace | None:
    """Record some policy steps with their sub-steps; memories are fed back, outputs come from the torch program.

    The first tick uses the current input values. Later ticks use random values around them, or the current values if
    the program cannot be computed with random ones. The trace ends before a chaotic memory amplifies rounding errors
    beyond the tolerance.

    Returns:
        The trace; None if a single tick takes more than MAX_BYTES_OF_ONE_TICK, or no output can be compared.
    """
    inputs = [port.name for port in contract.inputs if port.kind not in PortKind.FILLED_BY_THE_CONTROLLER]
    memories = {memory.output_name for memory in program.memories}
    outputs = [name for name in program.policy_step_outputs if name not in memories | program.random_outputs]
    size = max(1, _bytes_a_tick(program, inputs, outputs))
    affordable = max(MAX_BYTES // size, int(size <= MAX_BYTES_OF_ONE_TICK))
    ticks = min(_POLICY_STEPS * contract.decimation, _MAX_TICKS, affordable)
    if ticks == 0 or not outputs:
        return None
    tolerance = max(_TOLERANCE, _ROUNDINGS * program.precision)
    with torch.random.fork_rng(devices=()):
        steps, disturbed = (_run(program, contract, ticks, error) for error in (0.0, _DISTURBANCE))
    steps = steps[: _predictable(steps, disturbed, outputs, tolerance)]
    return GoldenTrace(
        ticks=len(steps),
        inputs={name: encode_array(np.stack([values[name] for values, _ in steps])) for name in inputs},
        outputs={name: encode_array(np.stack([results[name] for _, results in steps])) for name in outputs},
        tolerance=tolerance,
    )


def _bytes_a_tick(program: Program, inputs: list[str], outputs: list[str]) -> int:
    results = program.run(program.examples)[0]
    tensors = [*(program.examples[name] for name in inputs), *(results[name] for name in outputs)]
    return sum(tensor.nbytes for tensor in tensors)


def _run(program: Program, contract: Contract, ticks: int, error: float) -> Steps:
    """Compute ticks; after the first one, a relative error is added to the memories."""
    try:
        return _run_at(around, program, contract, ticks, error)
    except Exception:  # for example an index that is only valid at the current value
        return _run_at(as_found, program, contract, ticks, error)


def _run_at(variation: Variation, program: Program, contract: Contract, ticks: int, error: float) -> Steps:
    generator = torch.Generator().manual_seed(0)
    is_init = [port.name for port in contract.inputs if port.kind == PortKind.IS_INIT]
    memories = {memory.input_name: memory.initial for memory in program.memories}
    held: dict[str, torch.Tensor] = {}
    steps = []
    for tick in range(ticks):
        vary = variation if tick else as_found
        inputs = {port.name: vary(port.example, generator) for port in program.inputs}
        inputs |= {name: torch.full_like(inputs[name], tick == 0) for name in is_init}
        default, sub_step = program.run(inputs | memories)
        held |= sub_step if tick % contract.decimation else default
        error_now = 0.0 if tick else error
        memories = {memory.input_name: _off_by(error_now, held[memory.output_name]) for memory in program.memories}
        steps.append((_arrays(inputs), _arrays(held)))
    return steps


def _predictable(steps: Steps, disturbed: Steps, outputs: list[str], tolerance: float) -> int:
    """Number of ticks until a memory error exceeds the tolerance; at least 1, since the first tick has no error."""
    for tick, ((_, results), (_, others)) in enumerate(zip(steps, disturbed, strict=True)):
        if any(difference(results[name], others[name], tolerance, tolerance, by_largest=True) for name in outputs):
            return max(1, tick)
    return len(steps)


def _off_by(error: float, tensor: torch.Tensor) -> torch.Tensor:
    return tensor * (1.0 + error) if error and tensor.is_floating_point() else tensor


def _arrays(tensors: dict[str, torch.Tensor]) -> Values:
    return {name: to_numpy(tensor) for name, tensor in tensors.items()}
