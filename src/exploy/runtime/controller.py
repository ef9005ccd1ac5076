"""Runs an exported file on a robot: numpy and onnxruntime, no torch."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import get_ident
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from exploy.contract import Contract, Port
from exploy.errors import ContractError, FaultError, RuntimeInputError, ThreadError
from exploy.runtime.arena import Arena
from exploy.runtime.element_order import checked_order, order_of, reordered
from exploy.runtime.engine import OUTPUT, Engine, Key
from exploy.runtime.fault import Fault, Finding, Guard, Guards, OnFault
from exploy.runtime.intake import Intake, checked_ages, checked_sizes, converted
from exploy.runtime.model_file import ModelFile
from exploy.runtime.paths import open_paths
from exploy.runtime.ramp import Ramp
from exploy.runtime.rate_watch import RateWatch
from exploy.runtime.selftest import replay_trace
from exploy.runtime.statistics import Durations, Stats, stats_of
from exploy.runtime.value_checks import FiniteCheck, LimitCheck
from exploy.runtime.wiring import Wiring

_NOTHING_TO_HOLD = " There are no outputs of an earlier tick to hold."


class Listener(Protocol):
    """What wants to know of every tick, such as a recorder."""

    def on_tick(self, tick: int, started: int, duration: int) -> None:
        """A tick was computed; times in nanoseconds of the controller's clock."""

    def on_event(self, tick: int, event: dict[str, Any]) -> None:
        """Something else happened: a reset, a ramp, a fault."""


class Buffers(dict[str, np.ndarray]):
    """Arrays by port name, to be written into and never to be replaced."""

    def __setitem__(self, name: str, value: Any) -> None:
        raise TypeError(
            f"The buffer of {name!r} cannot be replaced; write into it: controller.inputs[{name!r}][:] = value"
        )


class Controller:
    """A file, ready to be ticked; made by `Controller.load()`.

    `step()` takes a dictionary and returns one; its arrays belong to the caller. `tick()` is the fast way: write into
    `inputs`, tick, read `outputs`, whose arrays the next tick overwrites. The first tick after a reset runs the policy
    and starts from the memories stored in the file; `obs` and `actions` stay those of the last policy step.

    Belongs to the thread that ticks it first after a reset; use from another one raises ThreadError.

    Args:
        file: The file.
        hz: The rate to watch from the start; see `arm()`.
        guards: What to watch, and what to do when something is wrong.
        on_fault: What a guard that is set to "call" calls, with the fault; returns outputs to hold, or None.
        max_age: Seconds for which an input may stay as it is once a rate is armed, by name.
        sizes: Sizes that the file leaves open, by name; 1 where one is not given.
        threads: Number of threads that onnxruntime computes with.
        spinning: Let these threads keep their processors busy while they wait.
        split: Run the two paths as sessions of their own where the file allows it.
        clock: Gives nanoseconds that only go up.

    Raises:
        ContractError: If the file cannot be run here.
        RuntimeInputError: If an option is not usable.
    """

    def __init__(
        self,
        file: ModelFile,
        *,
        hz: float | None = None,
        guards: Guards | None = None,
        on_fault: OnFault | None = None,
        max_age: Mapping[str, float] | None = None,
        sizes: Mapping[str, int] | None = None,
        threads: int = 1,
        spinning: bool = False,
        split: bool = True,
        clock: Callable[[], int] = time.perf_counter_ns,
    ):
        self._contract = file.contract
        self._guards = guards or Guards()
        self._on_fault = on_fault
        self._max_age = checked_ages(max_age or {}, file.contract)
        self._clock = clock
        if on_fault is None and "call" in {self._guards.action(guard) for guard in Guard}:
            raise RuntimeInputError('A guard is set to "call", but there is nothing to call; give on_fault=.')
        self._paths = open_paths(file, threads=threads, spinning=spinning, split=split)
        self._sizes = checked_sizes(sizes or {}, file.contract)
        self._engine = engine = self.new_engine()
        self._released: Arena[Key] = Arena(
            {(OUTPUT, name): (array.dtype, array.shape) for name, array in engine.outputs.items()}
        )
        self.inputs = Buffers(engine.inputs)
        self.outputs = Buffers({name: _read_only(self._released.arrays[OUTPUT, name]) for name in engine.outputs})
        self._intake = Intake(self.inputs, file.contract.unused_inputs, self._guards.watches(Guard.INPUTS))
        self._ports = {port.name: port for port in (*engine.parts.inputs, *engine.parts.outputs)}
        self._finite = FiniteCheck(engine, self._ports) if self._guards.watches(Guard.FINITE) else None
        self._durations = (Durations(), Durations())
        self._overruns = 0
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._is_running = False
        self._listener: Listener | None = None
        self._watch: RateWatch | None = None
        self._ramps: dict[str, Ramp] = {}
        self._fault: Fault | None = None
        self._tick = self._position = 0
        self._wire()
        engine.warm_up()
        self._restart()
        if hz is not None:
            self.arm(hz)

    @classmethod
    def load(cls, path: str | Path | bytes, **options: Any) -> "Controller":
        """Load a file and check it: its digest, its contract against its graph, its versions against onnxruntime.

        Args:
            path: The file, or its bytes.
            **options: The options of Controller: `hz`, `guards`, `on_fault`, `max_age`, `sizes`, `threads`, `spinning`,
                `split`, `clock`.

        Raises:
            ContractError: If the file cannot be trusted or run here; the message says why.
            RuntimeInputError: If an option is not usable.
        """
        if isinstance(path, bytes):
            return cls(ModelFile.parse(path), **options)
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise ContractError(f"Cannot read {path}: {error.strerror or error}. Give the path of a file.") from None
        return cls(ModelFile.parse(data, str(path)), **options)

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def contract(self) -> Contract:
        """What the file says about itself."""
        return self._contract

    @property
    def ports(self) -> Mapping[str, Port]:
        """The inputs to give and the outputs to expect; names, limits and gains in the order that `bind()` has set."""
        return MappingProxyType(self._ports)

    @property
    def gains(self) -> dict[str, dict[str, np.ndarray]]:
        """Gains of each output that has some, such as its stiffness, in the order that `bind()` has set."""
        return {
            name: {gain: np.array(values) for gain, values in port.gains.items()}
            for name, port in self._ports.items()
            if port.gains
        }

    @property
    def ticks(self) -> int:
        """Number of ticks since the last reset."""
        return self._tick

    @property
    def fault(self) -> Fault | None:
        """What went wrong since the last reset."""
        return self._fault

    @property
    def stats(self) -> Stats:
        """How long ticks took, and how many took longer than their period, since the controller was loaded."""
        return stats_of(*self._durations, self._overruns)

    # -- preparation --------------------------------------------------------------------------------------------------

    def selftest(self) -> int:
        """Run the file on its golden trace; memories and buffers of this controller are not touched.

        Returns:
            The number of ticks that were compared.

        Raises:
            VerificationError: If an output differs; the message names it.
            ContractError: If the file has no trace.
        """
        return replay_trace(self._contract, self._paths)

    def reset(self) -> None:
        """Start anew: memories as stored in the file, the policy at the next tick, no fault, no ramp.

        Inputs, outputs and arrays that were handed out are not written to.

        Raises:
            ThreadError: If a tick is being computed.
        """
        if self._is_running:
            raise ThreadError("The controller is within a tick; reset it between ticks.")
        self._restart()
        self._tell({"event": "reset"})

    def bind(self, port: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Take and give elements in the robot's order from now on.

        Besides the port itself, all others whose elements are among these names are bound: inputs, targets and gains.

        Args:
            port: An input or output with element names.
            names: Its element names in the robot's order, each of them once.

        Returns:
            The order of each port that was bound.

        Raises:
            RuntimeInputError: If a name is missing, doubled or unknown, or the port has none; nothing is bound then.
        """
        if port not in self._ports:
            raise RuntimeInputError(f"There is no port {port!r}; there are {', '.join(self._ports)}.")
        if self._tick or self._listener is not None:
            raise RuntimeInputError("Bind after a reset, before the first tick and before recording.")
        order = checked_order(self._ports[port], names)
        bound = {name: found for name, item in self._ports.items() if (found := order_of(item, order)) is not None}
        self._ports |= {name: reordered(self._ports[name], found) for name, found in bound.items()}
        self._wire()
        return bound

    def arm(self, hz: float) -> None:
        """Watch time from now on: ticks off this rate, steps over their period, inputs that are not refreshed.

        Raises:
            RuntimeInputError: If the rate is not the one that the file was made for.
        """
        self._watch = RateWatch(hz, self._contract, self._guards, self._max_age, self.inputs)

    def disarm(self) -> None:
        """Stop watching time."""
        self._watch = None

    def ramp_in(self, output: str, start: Any, seconds: float) -> None:
        """Lead an output from where the robot is to what the file computes, over some time from the next tick on.

        Args:
            output: The output, such as joint targets.
            start: Where the robot is, in the order that `bind()` has set.
            seconds: How long it takes.

        Raises:
            RuntimeInputError: If that output cannot be led, or the time of a tick is not known.
        """
        rate = self._watch.hz if self._watch else 1 / self._contract.sim_dt if self._contract.sim_dt else None
        if rate is None:
            raise RuntimeInputError("A ramp needs the rate of the ticks, which the file does not tell; give hz=.")
        if output not in self.outputs or not all(output in path.outputs for path in self._paths):
            raise RuntimeInputError(f"{output!r} is no output that every tick computes, so it cannot be led.")
        if self.outputs[output].dtype.kind != "f" or not 0 <= seconds < float("inf"):
            raise RuntimeInputError(f"A ramp needs an output of floats and a time of 0 or more, got {seconds!r}.")
        value = converted(output, start, self.outputs[output])
        if not np.isfinite(value).all():
            raise RuntimeInputError(f"A ramp cannot start from values that are not finite, got {value.tolist()}.")
        first = self._wiring.in_file_order(self._engine.port(output), value)
        self._tell({"event": "ramp_in", "output": output, "start": first.tolist(), "seconds": seconds, "hz": rate})
        self._ramps[output] = Ramp(self._engine.outputs[output], first, round(seconds * rate))

    # -- running ------------------------------------------------------------------------------------------------------

    def step(self, values: Mapping[str, Any], *, ages: Mapping[str, float] | None = None) -> dict[str, np.ndarray]:
        """Tick once with these inputs.

        Args:
            values: An array for each input; of the port's type, and its shape with or without a first dimension of 1.
                Numbers and lists are converted. Once a rate is armed, an input that `max_age` names may be left out.
            ages: Seconds since inputs were measured, by name, where they are not fresh.

        Returns:
            All outputs but memories. The arrays belong to the caller.

        Raises:
            FaultError: If a guard trips that is set to raise, and at every later step until `reset()`.
            ThreadError: If this is a second thread.
        """
        if self._owner != get_ident():
            self._claim()
        if self._fault is None:
            try:
                self._intake.take(values, self._max_age if self._watch else {})
                if self._watch is not None:
                    self._watch.take(values, ages or {}, self._clock())
            except RuntimeInputError as error:
                self._trip(Finding(Guard.INPUTS, str(error)))
        self.tick()
        return {name: array.copy() for name, array in self.outputs.items()}

    def refreshed(self, *names: str) -> None:
        """Say that inputs were written to, all of them if none is named; needed by `tick()` once a rate is armed."""
        unknown = [name for name in names if name not in self.inputs]
        if unknown:
            raise RuntimeInputError(f"There is no input {', '.join(unknown)}; there are {', '.join(self.inputs)}.")
        if self._watch is not None:
            self._watch.mark(names or self.inputs, self._clock())

    def tick(self) -> None:
        """Compute one tick from `inputs` into `outputs`.

        Raises:
            FaultError: If a guard trips that is set to raise, and at every later tick until `reset()`.
            ThreadError: If this is a second thread.
        """
        if self._owner != get_ident():
            self._claim()
        if self._fault is not None:
            self._stand_still(self._fault)
            return
        self._is_running = True
        try:
            self._run()
        finally:
            self._is_running = False

    def _run(self) -> None:
        started = self._clock()
        if self._watch is not None and (found := self._watch.before(started)) is not None:
            self._trip(found)
            return
        wiring = self._wiring
        for source, index, target in wiring.gathers:
            source.take(index, 0, target, "clip")
        run, binding, is_policy_step, following = self._engine.steps[self._position]
        try:
            run(binding)
        except Exception as error:
            self._trip(Finding(Guard.EXECUTION, f"onnxruntime cannot compute this step: {_first_line(error)}."))
            return
        for check in self._checks:
            if (found := check.finding()) is not None:
                self._trip(found)
                return
        if self._ramps:
            self._ramps = {name: ramp for name, ramp in self._ramps.items() if ramp.apply()}
        for target, source in wiring.copies:
            target[...] = source
        for source, index, target in wiring.scatters:
            source.take(index, 0, target, "clip")
        self._has_outputs = True
        self._position = following
        self._tick += 1
        duration = self._clock() - started
        self._durations[0 if is_policy_step else 1].add(duration)
        if self._listener is not None:
            self._listener.on_tick(self._tick - 1, started, duration)
        if self._watch is not None:
            self._overruns += duration > self._watch.period
            if (found := self._watch.after(duration)) is not None:
                self._trip(found)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _trip(self, found: Finding) -> None:
        """Take note of a fault, and do what its guard is set to."""
        fault = self._fault = Fault(found.guard, self._tick, found.message, found.port)
        action = self._guards.action(fault.guard)
        self._tell({"event": "fault", "guard": fault.guard.value, "port": fault.port, "message": fault.message})
        if action == "call" and self._on_fault is not None:
            self._raises = True  # unless there is something to hold when that returns
            self._hold(self._on_fault(fault))
        must_raise = action in ("raise", "off")  # off, where there is nothing that could be taken all the same
        self._raises = must_raise or not self._has_outputs
        if self._raises:
            raise FaultError(f"{fault}{'' if must_raise else _NOTHING_TO_HOLD}", fault)

    def _stand_still(self, fault: Fault) -> None:
        if self._raises:
            raise FaultError(f"The controller has stood still since a fault; reset() it. {fault}", fault)

    def _hold(self, outputs: Mapping[str, Any] | None) -> None:
        """Put outputs that were chosen for a fault in the place of the computed ones; all of them, or none."""
        chosen = dict(outputs or {})
        unknown = [name for name in chosen if name not in self.outputs]
        if unknown:
            raise RuntimeInputError(f"on_fault returned {', '.join(unknown)}; outputs are {', '.join(self.outputs)}.")
        values = {name: converted(name, value, self.outputs[name]) for name, value in chosen.items()}
        for name, value in values.items():
            self._released.arrays[OUTPUT, name][...] = value
        self._has_outputs = self._has_outputs or set(chosen) == set(self.outputs)

    # -- state --------------------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        """Belong to this thread, unless to another one already."""
        with self._lock:
            if self._owner is None:
                self._owner = get_ident()
            elif self._owner != get_ident():
                raise ThreadError(
                    "The controller is used from a second thread. Give each thread a controller of its own, or "
                    "reset() before handing it over."
                )

    def _restart(self) -> None:
        self._engine.start()
        self._position = self._tick = 0
        self._fault = None
        self._raises = self._has_outputs = False
        self._ramps = {}
        self._owner = None
        if self._watch is not None:
            self._watch.restart()

    def _wire(self) -> None:
        """Prepare the copies of a tick and its checks, for the order of elements that is in force."""
        self._wiring = Wiring(self._engine, self._ports, self._released)
        limits = LimitCheck(self._engine, self._ports)
        self._checks: list[FiniteCheck | LimitCheck] = [self._finite] if self._finite is not None else []
        if limits.is_needed and self._guards.watches(Guard.LIMITS):
            self._checks.append(limits)

    # -- listeners ----------------------------------------------------------------------------------------------------

    def listen(self, listener: Listener | None) -> None:
        """Tell a listener of every tick from now on, or nobody.

        Raises:
            RuntimeInputError: If there is one already.
        """
        if listener is not None and self._listener is not None:
            raise RuntimeInputError("The controller is being recorded already; close that recorder first.")
        self._listener = listener

    def signals(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The buffers of inputs and outputs in the order of the file; the next tick overwrites them."""
        return dict(self._wiring.inputs), dict(self._engine.outputs)

    def new_engine(self) -> Engine:
        """The file on buffers of its own, at its start; shares the sessions, and nothing that changes."""
        return Engine(self._contract, self._paths, self._sizes)

    def _tell(self, event: dict[str, Any]) -> None:
        if self._listener is not None:
            self._listener.on_event(self._tick, event)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
