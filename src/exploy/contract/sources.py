"""Which inputs of a file a robot measures, which it must estimate, and which it cannot have."""

from collections.abc import Iterable

from exploy.contract.parts import InputSource, Port, PortKind

UNTOLD = "unknown"
_COMMAND = "command"  # the kind of inputs that an operator or the application gives


def inputs_by_source(inputs: Iterable[Port]) -> dict[str, tuple[str, ...]]:
    """The names of the inputs of each source, and of those without one under `UNTOLD`; empty if no source is told.

    Commands without a source are left out, and so is what the controller fills in.
    """
    asked = [port for port in inputs if port.kind not in PortKind.FILLED_BY_THE_CONTROLLER]
    if all(port.source is None for port in asked):
        return {}
    named = {
        source: tuple(port.name for port in asked if port.source == source)
        for source in (InputSource.SIMULATOR, InputSource.ESTIMATED, InputSource.MEASURED)
    }
    named[UNTOLD] = tuple(port.name for port in asked if port.source is None and port.kind != _COMMAND)
    return {source: names for source, names in named.items() if names}


def source_notes(inputs: Iterable[Port]) -> dict[str, str]:
    """A sentence about the inputs of each source that asks something of the robot; none if no source is told."""
    found = inputs_by_source(inputs)
    return {source: _note(source, names) for source, names in found.items() if source != InputSource.MEASURED}


def _note(source: str, names: tuple[str, ...]) -> str:
    listed, them = ", ".join(names), "it" if len(names) == 1 else "them"
    if source == InputSource.SIMULATOR:
        return f"A robot cannot have {listed}: only a simulator knows {them}."
    if source == InputSource.ESTIMATED:
        return f"An estimator must give {listed}: a robot does not measure {them}."
    return f"It is not told whether a robot can have {listed}."
