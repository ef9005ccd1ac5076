"""Replays the golden trace of a file: does this machine compute what the torch program did?"""

from exploy.contract import Contract
from exploy.errors import ContractError, VerificationError
from exploy.runtime.engine import Engine
from exploy.runtime.paths import Path
from exploy.verify.compare import difference


def replay_trace(contract: Contract, paths: tuple[Path, Path]) -> int:
    """Run a file on the inputs of its trace, memories fed back, and compare all outputs at every tick.

    Returns:
        The number of ticks that were compared.

    Raises:
        ContractError: If the file has no trace, or one that does not fit its ports.
        VerificationError: If an output differs; the message names it, the tick and the element.
    """
    trace = contract.trace
    if trace is None:
        raise ContractError(
            "The file has no golden trace to be tested by: it was switched off at export (golden_trace=False), or a "
            "single tick of it takes too much room."
        )
    engine = Engine(contract, paths, {})
    inputs, expected = trace.input_arrays(), trace.output_arrays()
    if set(inputs) != set(engine.inputs) or not set(expected) <= set(engine.outputs):
        raise ContractError("The golden trace does not have the ports of its file. Export the file again.")
    arrays = [(values, engine.inputs[name]) for name, values in inputs.items()]
    arrays += [(values, engine.outputs[name]) for name, values in expected.items()]
    if any(values.shape[1:] != array.shape or values.dtype != array.dtype for values, array in arrays):
        raise ContractError("The golden trace does not have the types and shapes of its ports. Export the file again.")
    position = 0
    for tick in range(trace.ticks):
        for name, values in inputs.items():
            engine.inputs[name][...] = values[tick]
        step = engine.steps[position]
        step.run(step.binding)
        position = step.next
        for name, values in expected.items():
            found = difference(values[tick], engine.outputs[name], trace.tolerance, trace.tolerance, by_largest=True)
            if found is not None:
                raise VerificationError(
                    f"The self-test failed: output {name!r}, {found} (tick {tick}). This machine does not compute what "
                    "the file was made from; try another release of onnxruntime."
                )
    return trace.ticks
