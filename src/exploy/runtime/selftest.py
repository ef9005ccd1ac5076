"""Replays the golden trace of a file, to check that this machine computes the same as the torch program."""

from collections.abc import Iterator, Mapping

import numpy as np

from exploy.comparison import difference
from exploy.contract import Contract, GoldenTrace
from exploy.errors import ContractError, VerificationError
from exploy.runtime.engine import Engine
from exploy.runtime.file_errors import refused
from exploy.runtime.step_runner import StepRunner

_OF_ONNXRUNTIME = "Try another release of onnxruntime."
_ADVICE = {"c": "Compile it on this machine: exploy compile"}  # by backend


def replay_trace(contract: Contract, runners: tuple[StepRunner, StepRunner]) -> int:
    """Run a file on the inputs of its trace, with memories fed back, and compare all outputs at every tick.

    Returns:
        The number of ticks that were compared.

    Raises:
        ContractError: If the file has no trace, or its trace does not match its ports.
        VerificationError: If an output differs; the message names it, the tick and the element.
    """
    trace = contract.trace
    if trace is None:
        raise ContractError(
            "The file has no golden trace, so it cannot be tested. The trace was disabled at export "
            "(golden_trace=False), or a single tick is too large to store."
        )
    engine = Engine(contract, runners, {})
    inputs, expected = fitting_arrays(trace, engine)
    for tick in run_ticks(engine, inputs, trace.ticks):
        for name, values in expected.items():
            found = difference(values[tick], engine.outputs[name], trace.tolerance, trace.tolerance, by_largest=True)
            if found is not None:
                raise VerificationError(
                    f"The self-test failed: output {name!r}, {found} (tick {tick}). This machine computes other values "
                    f"than the original torch program. {_ADVICE.get(contract.backend, _OF_ONNXRUNTIME)}"
                )
    return trace.ticks


def fitting_arrays(trace: GoldenTrace, engine: Engine) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the inputs and outputs of a trace.

    Raises:
        ContractError: If they do not match the ports of the file.
    """
    inputs, expected = trace.input_arrays(), trace.output_arrays()
    if not _fit(inputs, engine.inputs) or set(inputs) != set(engine.inputs) or not _fit(expected, engine.outputs):
        raise ContractError("The golden trace does not match the ports of the file. Export the file again.")
    return inputs, expected


def run_ticks(engine: Engine, inputs: Mapping[str, np.ndarray], ticks: int) -> Iterator[int]:
    """Run ticks from the initial state. Yield the number of each tick when its outputs are in the engine's buffers.

    Raises:
        ContractError: If the file cannot compute a tick.
    """
    position = 0
    for tick in range(ticks):
        for name, values in inputs.items():
            engine.inputs[name][...] = values[tick]
        step = engine.steps[position]
        with refused("The file", f"run on tick {tick} of a trace"):
            step.run(step.binding)
        position = step.next
        yield tick


def _fit(arrays: Mapping[str, np.ndarray], buffers: Mapping[str, np.ndarray]) -> bool:
    """Return whether each array matches a buffer in dtype and shape, apart from the tick dimension."""
    return all(
        name in buffers and values.shape[1:] == buffers[name].shape and values.dtype == buffers[name].dtype
        for name, values in arrays.items()
    )
