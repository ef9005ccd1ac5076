"""Replays a log offline, to check that the file computes the same outputs as on the robot."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exploy.comparison import Difference, absolute_error, difference
from exploy.errors import LogError
from exploy.runtime.controller import Controller
from exploy.runtime.engine import Engine
from exploy.runtime.logs.formats import load_log
from exploy.runtime.logs.log import GAP, Log
from exploy.runtime.ramp import Ramp
from exploy.text import printable

_TOLERANCE = 1e-4


@dataclass(frozen=True)
class OutputReplay:
    """The result for one output: the worst error over all ticks, and the first tick of the log beyond the tolerance."""

    worst_error: float
    first_tick: int | None = None
    first: Difference | None = None


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    Args:
        ticks: Number of replayed ticks.
        outputs: The result for each output.
        same_file: Whether the log was recorded with exactly this file.
        missing: Outputs of the log that were not compared: the file does not have them, or they are random.
        skipped: Number of ticks that could not be replayed: ticks before them are missing from the log.
        is_closed: Whether the log was finished.
    """

    ticks: int
    outputs: dict[str, OutputReplay]
    same_file: bool
    missing: tuple[str, ...] = ()
    skipped: int = 0
    is_closed: bool = True

    @property
    def agrees(self) -> bool:
        """True if ticks and outputs were compared, and those that were agree."""
        return self.ticks > 0 and bool(self.outputs) and all(found.first is None for found in self.outputs.values())

    @property
    def ok(self) -> bool:
        """True if ticks and outputs were compared, all of them agree, and no tick had to be skipped."""
        return self.agrees and not self.skipped

    def __str__(self) -> str:
        verdict = "agrees" if self.agrees else "DIFFERS" if self.ticks else "nothing to compare"
        lines = [f"{self.ticks} ticks replayed: {verdict}."]
        if self.skipped:
            lines.append(f"INCOMPLETE: {self.skipped} ticks were not replayed; ticks before them are not in the log.")
        if not self.is_closed:
            lines.append("The log was not finished: the recorder was killed, or the power failed.")
        if not self.same_file:
            lines.append("The log was recorded with another file than the one that was replayed.")
        for name, found in self.outputs.items():
            detail = f", first at tick {found.first_tick} of the log: {found.first}" if found.first else ""
            lines.append(f"  {name}: worst error {found.worst_error:.3g}{detail}")
        lines += [f"  {name}: not compared, because the file does not have it or it is random" for name in self.missing]
        return "\n".join(map(printable, lines))


def replay(log: str | Path | Log, controller: Controller, *, tolerance: float = _TOLERANCE) -> Replay:
    """Replay the inputs of a log, with its resets and ramps, and compare the outputs.

    The controller's own memories, buffers and counters are not changed.

    Args:
        log: The log, or its path.
        controller: A controller with the file to run: the file of the log, or another file with the same ports.
        tolerance: Maximum error of an output: absolute, and relative to the largest element.

    Raises:
        LogError: If the log cannot be read, or does not match the inputs and outputs of the file.
    """
    log = log if isinstance(log, Log) else load_log(log)
    engine = controller.new_engine()
    _require_same_ports(log, engine)
    known = set(engine.outputs) - set(controller.contract.random_outputs)
    compared = {name: values for name, values in log.outputs.items() if name in known}
    found = {name: OutputReplay(0.0) for name in compared}
    ticks = 0
    try:
        for row in _run(log, engine):
            ticks += 1
            for name, values in compared.items():
                found[name] = _compared(found[name], values[row], engine.outputs[name], row, tolerance)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise LogError(f"The events of the log are damaged ({type(error).__name__}: {error}).") from None
    return Replay(
        ticks=ticks,
        outputs=found,
        same_file=log.header.file_digest == controller.contract.digest,
        missing=tuple(name for name in log.outputs if name not in known),
        skipped=log.ticks - ticks,
        is_closed=log.is_closed,
    )


def _run(log: Log, engine: Engine) -> Iterator[int]:
    """Run tick by tick. Yield the number of each row when its outputs are in the engine's buffers.

    After missing ticks, the memories of the robot are not known, so ticks are skipped until the next reset.
    """
    position = 0
    is_known = True
    ramps: dict[str, Ramp] = {}
    pending = list(log.events)
    for row in range(log.ticks):
        while pending and pending[0].row <= row:
            event = pending.pop(0).content
            if event.get("event") == "reset":
                position, ramps, is_known = 0, {}, True
                engine.start()
            elif event.get("event") == GAP:
                is_known = False
            elif event.get("event") == "ramp_in" and event["output"] in engine.outputs:
                ramps[event["output"]] = _ramp(event, engine)
        if not is_known:
            continue
        for name, values in log.inputs.items():
            engine.inputs[name][...] = values[row]
        step = engine.steps[position]
        try:
            step.run(step.binding)
        except Exception as error:
            raise LogError(f"The file cannot compute tick {row} of the log: {error}") from None
        position = step.next
        ramps = {name: ramp for name, ramp in ramps.items() if ramp.apply()}
        yield row


def _ramp(event: dict[str, Any], engine: Engine) -> Ramp:
    output = engine.outputs[event["output"]]
    return Ramp(event["output"], output, np.array(event["start"], dtype=output.dtype), int(event["ticks"]))


def _compared(before: OutputReplay, expected: np.ndarray, got: np.ndarray, row: int, tolerance: float) -> OutputReplay:
    worst = max(before.worst_error, float(absolute_error(expected, got).max(initial=0.0)))
    first = before.first or difference(expected, got, tolerance, tolerance, by_largest=True)
    first_tick = before.first_tick if before.first is not None else row if first is not None else None
    return OutputReplay(worst, first_tick, first)


def _require_same_ports(log: Log, engine: Engine) -> None:
    logged = {name: f"{values.dtype} {list(values.shape[1:])}" for name, values in log.inputs.items()}
    taken = {name: f"{array.dtype} {list(array.shape)}" for name, array in engine.inputs.items()}
    if logged != taken:
        raise LogError(f"The inputs of the log do not match the file. Log: {_listed(logged)}. File: {_listed(taken)}.")
    for name, values in log.outputs.items():
        if name in engine.outputs and values.shape[1:] != engine.outputs[name].shape:
            raise LogError(f"The output {name!r} has different shapes in the log and in the file.")


def _listed(ports: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in ports.items()) or "none"
