"""Records the trace that a file is tested by where there is neither simulator nor torch."""

from collections.abc import Callable

import numpy as np
import torch

from exploy.contract import Contract, GoldenTrace, Kind, encode_array
from exploy.exporter.capture.program import Program
from exploy.exporter.core.components import to_numpy
from exploy.verify.variation import Variation, around, as_found

MAX_BYTES = 1 << 18
_POLICY_STEPS = 3
_TOLERANCE = 1e-4  # other processors add up in another order than the one that the trace was made on
_ROUNDINGS = 10

_FILLED_BY_THE_CONTROLLER = (Kind.STEP_COUNT, Kind.MEMORY, Kind.IS_INIT)

Values = dict[str, np.ndarray]


def record_trace(program: Program, contract: Contract) -> GoldenTrace | None:
    """Some policy steps with their sub-steps, memories fed back, all outputs from the torch program.

    The first tick has the values that were found, the others have values around them, unless the program cannot be
    computed at such. None if a single tick takes more than MAX_BYTES.
    """
    inputs = [port.name for port in contract.inputs if port.kind not in _FILLED_BY_THE_CONTROLLER]
    is_init = {port.name for port in contract.inputs if port.kind == Kind.IS_INIT}
    memories = {memory.output_name for memory in program.memories}
    outputs = [name for name in program.default_outputs if name not in memories | program.random_outputs]
    ticks = min(_POLICY_STEPS * contract.decimation, MAX_BYTES // max(1, _bytes_a_tick(program, inputs, outputs)))
    if ticks == 0 or not outputs:
        return None
    with torch.random.fork_rng(devices=()):
        try:
            steps = _run(program, contract.decimation, ticks, around, is_init)
        except Exception:
            steps = _run(program, contract.decimation, ticks, as_found, is_init)
    return GoldenTrace(
        ticks=ticks,
        inputs={name: encode_array(np.stack([values[name] for values, _ in steps])) for name in inputs},
        outputs={name: encode_array(np.stack([results[name] for _, results in steps])) for name in outputs},
        tolerance=max(_TOLERANCE, _ROUNDINGS * program.precision),
    )


def _bytes_a_tick(program: Program, inputs: list[str], outputs: list[str]) -> int:
    results = program.run(program.examples)[0]
    tensors = [*(program.examples[name] for name in inputs), *(results[name] for name in outputs)]
    return sum(tensor.nbytes for tensor in tensors)


def _run(
    program: Program, decimation: int, ticks: int, variation: Variation, is_init: set[str]
) -> list[tuple[Values, Values]]:
    generator = torch.Generator().manual_seed(0)
    memories = {memory.input_name: memory.initial for memory in program.memories}
    held: dict[str, torch.Tensor] = {}
    steps = []
    for tick in range(ticks):
        vary: Callable[..., torch.Tensor] = variation if tick else as_found
        inputs = {port.name: vary(port.example, generator) for port in program.inputs}
        inputs |= {name: torch.full_like(inputs[name], tick == 0) for name in is_init}
        default, sub_step = program.run(inputs | memories)
        held |= sub_step if tick % decimation else default
        memories = {memory.input_name: held[memory.output_name] for memory in program.memories}
        steps.append((_arrays(inputs), _arrays(held)))
    return steps


def _arrays(tensors: dict[str, torch.Tensor]) -> Values:
    return {name: to_numpy(tensor) for name, tensor in tensors.items()}
