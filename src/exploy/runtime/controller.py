"""Runs an exported file on a robot, with numpy and onnxruntime and without torch."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from types import MappingProxyType
from typing import Any, Protocol, SupportsFloat

import numpy as np

from exploy.contract import Contract, Port
from exploy.contract.declared_stop import with_on_stop
from exploy.errors import Fault, Guard, RuntimeInputError, ThreadError
from exploy.runtime.backends import open_steps
from exploy.runtime.buffers import Buffers, read_only
from exploy.runtime.element_order import order_of, reordered, validated_order
from exploy.runtime.engine import OUTPUT, Engine
from exploy.runtime.file_errors import refused
from exploy.runtime.guards.fault_latch import FaultLatch
from exploy.runtime.guards.guards import Guards, OnFault, Violation
from exploy.runtime.guards.rate_watch import RateWatch
from exploy.runtime.guards.value_checks import FiniteCheck, LimitCheck
from exploy.runtime.input_writer import InputWriter, validated_ages, validated_sizes
from exploy.runtime.model_file import ModelFile
from exploy.runtime.ramp import Ramp, ramp_start, ramp_ticks
from exploy.runtime.selftest import replay_trace
from exploy.runtime.signatures.public_keys import TrustedKeys
from exploy.runtime.signatures.trust import SignatureSource
from exploy.runtime.statistics import Durations, Stats, stats_of
from exploy.runtime.stop_values import StopValues
from exploy.runtime.wiring import Wiring, output_arena
from exploy.tables import Table

_BUSY = "The controller is busy with a tick or reset. Use it between ticks, from one thread, and not from callbacks."


class Listener(Protocol):
    """An object that is notified of every tick, such as a recorder."""

    def on_tick(self, tick: int, started: int, duration: int) -> None:
        """Handle a computed tick; times are in nanoseconds of the controller's clock."""

    def on_event(self, event: dict[str, Any]) -> None:
        """Handle another event: a reset, a ramp, or a fault."""


class Controller:
    """Runs a loaded file tick by tick; created by `Controller.load()`.

    `step()` takes a dictionary and returns one; the returned arrays belong to the caller. `tick()` is faster: write
    into `inputs`, tick, read `outputs`. The next tick overwrites the output arrays. The first tick after a reset runs
    the policy and starts from the memories stored in the file. `obs` and `actions` keep the values of the last policy
    step.

    A controller belongs to the thread that ticks it first after a reset. Use from another thread raises ThreadError.

    Args:
        file: The loaded file.
        hz: The tick rate to monitor from the start; see `arm()`.
        guards: What to check, and what to do when a check fails.
        on_fault: Called with the fault by guards that are set to "call". Returns outputs to hold, or None.
        on_stop: What to leave outputs with on a stop or a held fault, by name: "hold", "zero", a number, or one number
            per element in the file's order. Replaces what the file says.
        hold_for: Seconds after a held fault until outputs that move have their stop value; linear, at once if 0.
        max_age: Seconds after which an input is stale, by name. Only checked once a rate is armed.
        sizes: Values for the named sizes of the file, by name; 1 for each size that is not given.
        threads: Number of threads that onnxruntime computes with.
        spinning: Let these threads busy-wait.
        split: Run policy step and sub-step in separate sessions if the file allows it.
        clock: Returns the time in nanoseconds; must be monotonic.

    Raises:
        ContractError: If the file cannot be run here.
        RuntimeInputError: If an option is invalid.
    """

    def __init__(
        self,
        file: ModelFile,
        *,
        hz: float | None = None,
        guards: Guards | None = None,
        on_fault: OnFault | None = None,
        on_stop: Mapping[str, Any] | None = None,
        hold_for: float = 0.0,
        max_age: Mapping[str, float] | None = None,
        sizes: Mapping[str, int] | None = None,
        threads: int = 1,
        spinning: bool = False,
        split: bool = True,
        clock: Callable[[], int] = time.perf_counter_ns,
    ):
        self._contract = file.contract
        self._guards = Guards() if guards is None else guards
        self._max_age = validated_ages({} if max_age is None else max_age, file.contract)
        self._clock = clock
        if not isinstance(self._guards, Guards) or not callable(clock) or type(threads) is not int or threads < 1:
            raise RuntimeInputError(
                "guards must be Guards(…), clock a function and threads an integer of 1 or more, "
                f"got {guards!r}, {clock!r} and {threads!r}."
            )
        self._runners = open_steps(file, threads=threads, spinning=spinning, split=split)
        self._sizes = validated_sizes({} if sizes is None else sizes, file.contract)
        with refused("The file", "prepared for its first tick"):
            self._engine = engine = self.new_engine()
        self._released = output_arena(engine)
        self._inputs = Buffers(engine.inputs)
        released = {name: self._released.arrays[OUTPUT, name] for name in engine.outputs}
        self._outputs = read_only(released)
        self._latch = FaultLatch(self._guards, on_fault, released, hold_for, clock)
        self._input_writer = InputWriter(self._inputs, file.contract.unused_inputs, self._guards.watches(Guard.INPUTS))
        try:
            outputs = with_on_stop(engine.parts.outputs, {} if on_stop is None else on_stop)
        except ValueError as error:
            raise RuntimeInputError(str(error)) from None
        self._ports = {port.name: port for port in (*engine.parts.inputs, *outputs)}
        self._finite = FiniteCheck(engine, self._ports) if self._guards.watches(Guard.FINITE) else None
        self._durations = (Durations(), Durations())
        self._overruns = 0
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._listener: Listener | None = None
        self._watch: RateWatch | None = None
        self._ramps: dict[str, Ramp] = {}
        self._tick = self._position = 0
        self._wire()
        engine.warm_up()
        self._restart()
        if hz is not None:
            self.arm(hz)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | bytes,
        *,
        trusted_keys: TrustedKeys | None = None,
        signature: SignatureSource | None = None,
        allow_code: bool = False,
        **options: Any,
    ) -> "Controller":
        """Load a file and check it: its digest, its contract against its graph, its versions against onnxruntime.

        Args:
            path: The file, or its bytes.
            trusted_keys: Public keys, or paths of key files or of folders of key files. The file must be signed with
                one of them. The environment variable EXPLOY_TRUSTED_KEYS does the same.
            signature: The signature or its path; by default `FILE.sig`.
            allow_code: Run compiled code in the file even if no trusted key has signed it.
            **options: The options of Controller: `hz`, `guards`, `on_fault`, `on_stop`, `hold_for`, `max_age`, `sizes`,
                `threads`, `spinning`, `split`, `clock`.

        Raises:
            SignatureError: If the file is not signed by a trusted key, or has compiled code that nobody vouches for.
            ContractError: If the file is invalid, was changed, or cannot be run here; the message says why.
            RuntimeInputError: If an option is invalid.
        """
        file = ModelFile.load(path, trusted_keys=trusted_keys, signature=signature, allow_code=allow_code)
        return cls(file, **options)

    # -- properties ---------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        rate = f"armed at {self.hz:g} Hz" if self.hz is not None else "not armed"
        state = f"fault: {self.fault}" if self.fault is not None else "no fault"
        table = Table("", "port", "shape", "unit", "elements")
        for direction, buffers in (("in", self.inputs), ("out", self.outputs)):
            for name, array in buffers.items():
                port = self.ports[name]
                shape = " x ".join(map(str, array.shape)) or "scalar"
                table.rows.append((direction, name, shape, port.unit or "", ", ".join(port.names or ())))
        return f"{self.ticks} ticks since the reset, {rate}, {state}\n{table}"

    @property
    def contract(self) -> Contract:
        """The contract of the file."""
        return self._contract

    @property
    def inputs(self) -> Buffers:
        """The arrays to write inputs into before `tick()`, by name. Floats are NaN until they are written."""
        return self._inputs

    @property
    def outputs(self) -> Buffers:
        """The outputs of the last good tick, by name. The next tick overwrites them."""
        return self._outputs

    @property
    def ports(self) -> Mapping[str, Port]:
        """The ports of `inputs` and `outputs`. Names, limits and gains are in the order set by `bind()`."""
        return MappingProxyType(self._ports)

    @property
    def gains(self) -> dict[str, dict[str, np.ndarray]]:
        """The gains of each port that has any, such as stiffness, in the order set by `bind()`."""
        return {
            name: {gain: np.array(values) for gain, values in port.gains.items()}
            for name, port in self._ports.items()
            if port.gains
        }

    @property
    def stop_values(self) -> StopValues:
        """What each output is left with on a stop, in the order set by `bind()`."""
        return self._stops

    @property
    def hz(self) -> float | None:
        """The armed rate, or None."""
        return self._watch.hz if self._watch is not None else None

    @property
    def ticks(self) -> int:
        """Number of ticks since the last reset."""
        return self._tick

    @property
    def fault(self) -> Fault | None:
        """The fault since the last reset, or None."""
        return self._latch.fault

    @property
    def stats(self) -> Stats:
        """Tick durations and number of overruns since the controller was loaded."""
        return stats_of(*self._durations, self._overruns)

    # -- preparation --------------------------------------------------------------------------------------------------

    def selftest(self) -> int:
        """Run the file on its golden trace. The controller's own memories and buffers are not changed.

        Returns:
            The number of ticks that were compared.

        Raises:
            VerificationError: If an output differs; the message names it.
            ContractError: If the file has no trace, or its trace does not match its ports.
        """
        return replay_trace(self._contract, self._runners)

    def reset(self) -> None:
        """Restore the initial state: memories as stored in the file, policy at the next tick, no fault, no ramp.

        Inputs, outputs and returned arrays are not changed.

        Raises:
            ThreadError: If a tick is being computed.
        """
        with self._alone():
            self._restart()
            self._tell({"event": "reset"})

    def bind(self, port: str, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Use the robot's element order from now on.

        Every other port whose elements are all among these names is bound too, with its limits, gains and stop values.
        Ports keep their size: of the names of a whole robot, a port takes those of its elements, in their order.

        Args:
            port: An input or output with element names.
            names: Its element names in the robot's order, each exactly once. The robot may have others as well.

        Returns:
            The names that each bound port takes, in their order.

        Raises:
            RuntimeInputError: If a name is missing or duplicated, or the port has no names. Nothing is bound then.
        """
        if port not in self._ports:
            raise RuntimeInputError(f"Unknown port {port!r}. The ports are {', '.join(self._ports)}.")
        with self._alone():
            if self._tick or self._ramps or self._listener is not None:
                raise RuntimeInputError("Call bind() after a reset, before the first tick, ramps and recording.")
            order = validated_order(self._ports[port], names)
            bound = {name: found for name, item in self._ports.items() if (found := order_of(item, order)) is not None}
            self._ports |= {name: reordered(self._ports[name], found) for name, found in bound.items()}
            self._wire()
        return bound

    def arm(self, hz: float) -> None:
        """Start monitoring time: ticks off this rate, steps over their period, inputs that are not refreshed.

        Raises:
            RuntimeInputError: If the rate is not the tick rate of the file.
        """
        with self._alone():
            self._watch = RateWatch(hz, self._contract, self._guards, self._max_age, self._inputs)

    def disarm(self) -> None:
        """Stop monitoring time."""
        with self._alone():
            self._watch = None

    def ramp_in(self, output: str, start: Any, seconds: SupportsFloat) -> None:
        """Blend an output from a start value to what the file computes, beginning at the next tick.

        Args:
            output: The output, such as joint targets.
            start: The current value on the robot, in the order set by `bind()`. It may exceed the limits.
            seconds: Duration of the ramp.

        Raises:
            RuntimeInputError: If the output cannot be ramped, an argument is invalid, or the tick rate is unknown.
        """
        rate = self.hz or self._contract.hz
        if rate is None:
            raise RuntimeInputError("A ramp needs the tick rate, which is not in the file. Pass hz= when loading.")
        if output not in self._outputs or not all(output in runner.outputs for runner in self._runners):
            raise RuntimeInputError(
                f"{output!r} is not an output that every tick computes. Only such outputs can be ramped."
            )
        value = ramp_start(output, start, self._outputs[output])
        with self._alone():
            first = self._wiring.in_file_order(self._engine.port(output), value)
            ramp = Ramp(output, self._engine.outputs[output], first, ramp_ticks(seconds, rate))
            self._ramps[output] = ramp
            self._tell(ramp.event())

    # -- running ------------------------------------------------------------------------------------------------------

    def step(self, values: Mapping[str, Any], *, ages: Mapping[str, float] | None = None) -> dict[str, np.ndarray]:
        """Run one tick with these inputs.

        Args:
            values: One array per input, with the dtype and shape of its port. A first dimension of 1 may be omitted.
                Numbers and lists are converted. Once a rate is armed, inputs in `max_age` may be omitted.
            ages: Seconds since inputs were measured, by name; only needed for inputs that are not new.

        Returns:
            All outputs except memories. The arrays belong to the caller.

        Raises:
            FaultError: If a guard that is set to raise trips, and at every later step until `reset()`.
            ThreadError: If called from a second thread, or within another tick or reset.
        """
        if self._lock.locked():
            raise ThreadError(_BUSY)
        with self._lock:
            self._claim()
            if self._latch.fault is None:
                try:
                    self._input_writer.take(values, self._max_age if self._watch else ())
                    if self._watch is not None:
                        self._watch.take(values, ages, self._clock())
                except RuntimeInputError as error:
                    self._trip(Violation(Guard.INPUTS, str(error)), self._tick)
            self._run()
            return {name: array.copy() for name, array in self._outputs.items()}

    def stop_command(self) -> dict[str, np.ndarray]:
        """Return the outputs to leave the robot with, for a loop of your own; `serve_rate()` writes them by itself.

        Returns:
            The stop values, and the last values of outputs that are held. Before the first good tick, there are none
            to hold: the stop values if they are all that the robot needs, otherwise nothing.

        Raises:
            RuntimeInputError: If it is not known for an output what to do on a stop.
        """
        self._stops.require_decided("There is no stop command.")
        return self._stops.command(self._outputs if self._latch.has_outputs else None) or {}

    def refreshed(self, *names: str) -> None:
        """Mark inputs as refreshed; all of them if no name is given. Needed before `tick()` once a rate is armed.

        Raises:
            RuntimeInputError: If an input is unknown.
        """
        unknown = [name for name in names if name not in self._inputs and name not in self._contract.unused_inputs]
        if unknown:
            raise RuntimeInputError(f"Unknown input {', '.join(unknown)}. The inputs are {', '.join(self._inputs)}.")
        if self._watch is not None:
            self._watch.mark(names or self._inputs, self._clock())

    def tick(self) -> None:
        """Compute one tick from `inputs` into `outputs`.

        Raises:
            FaultError: If a guard that is set to raise trips, and at every later tick until `reset()`.
            ThreadError: If called from a second thread, or within another tick or reset.
        """
        if self._lock.locked():
            raise ThreadError(_BUSY)
        with self._lock:
            self._claim()
            self._run()

    def _run(self) -> None:
        """Compute one tick, unless there is a fault."""
        if self._latch.fault is not None:
            self._latch.stand_still()
            return
        tick = self._tick
        started = self._clock()
        if self._watch is not None and (found := self._watch.before(started)) is not None:
            self._trip(found, tick)
            return
        wiring = self._wiring
        for source, index, target in wiring.gathers:
            source.take(index, 0, target, "clip")
        run, binding, is_policy_step, following = self._engine.steps[self._position]
        try:
            run(binding)
        except Exception as error:
            self._trip(self._reason_for(error), tick)
            return
        for check in self._checks:
            if (found := check.finding()) is not None:
                self._trip(found, tick)
                return
        if self._ramps:
            self._ramps = {name: ramp for name, ramp in self._ramps.items() if ramp.apply()}
        for target, source in wiring.copies:
            target[...] = source
        for source, index, target in wiring.scatters:
            source.take(index, 0, target, "clip")
        self._latch.has_outputs = True
        self._position = following
        self._tick = tick + 1
        duration = self._clock() - started
        self._durations[0 if is_policy_step else 1].add(duration)
        listener = self._listener
        if listener is not None:
            listener.on_tick(tick, started, duration)
        if self._watch is not None:
            self._overruns += duration > self._watch.period
            if (found := self._watch.after(duration)) is not None:
                self._trip(found, tick)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _reason_for(self, error: Exception) -> Violation:
        """Return why a step failed: non-finite values if there are any, otherwise the error itself."""
        found = self._finite.finding() if self._finite is not None else None
        what = "onnxruntime" if self._contract.backend == "onnx" else "The file"
        return found or Violation(Guard.EXECUTION, f"{what} cannot compute this step: {_first_line(error)}.")

    def _trip(self, found: Violation, tick: int) -> None:
        """Record a fault, notify the listener, and perform the action of the guard."""
        for source, index, target in self._wiring.gathers:  # listeners must see the inputs of this tick
            source.take(index, 0, target, "clip")
        self._latch.close(found, tick)
        self._tell({"event": "fault", "guard": found.guard.value, "port": found.port, "message": found.message})
        self._latch.act()

    # -- state --------------------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        """Assign the controller to this thread; raise ThreadError if it belongs to another thread."""
        thread = get_ident()
        if self._owner != thread:
            if self._owner is not None:
                raise ThreadError(
                    "The controller is used from a second thread. Load one controller per thread, or call "
                    "reset() before another thread uses it."
                )
            self._owner = thread

    def _alone(self) -> threading.Lock:
        """Return the lock for exclusive access; raise ThreadError if it is held."""
        if self._lock.locked():
            raise ThreadError(_BUSY)
        return self._lock

    def _restart(self) -> None:
        self._engine.start()
        self._position = self._tick = 0
        self._latch.clear()
        self._ramps = {}
        self._owner = None
        if self._watch is not None:
            self._watch.restart()

    def _wire(self) -> None:
        """Prepare the copies, checks and stop values of a tick for the current element order."""
        self._wiring = Wiring(self._engine, self._ports, self._released)
        self._stops = StopValues([self._ports[name] for name in self._outputs], self._outputs)
        self._latch.wire(self._ports, self._stops)
        self._checks: list[FiniteCheck | LimitCheck] = [self._finite] if self._finite is not None else []
        if self._guards.watches(Guard.LIMITS) and any(port.limits for port in self._ports.values()):
            self._checks.append(LimitCheck(self._engine, self._ports))

    # -- listeners ----------------------------------------------------------------------------------------------------

    def listen(self, listener: Listener) -> None:
        """Notify a listener of every tick from now on, and of ramps that are about to start.

        Raises:
            RuntimeInputError: If there is already a listener, or the controller has not just been loaded or reset.
        """
        if self._listener is not None:
            raise RuntimeInputError("The controller is already being recorded. Close that recorder first.")
        if self._tick or self._latch.fault is not None:
            raise RuntimeInputError("Start recording after a reset. A log that starts during a run cannot be replayed.")
        self._listener = listener
        for ramp in self._ramps.values():
            self._tell(ramp.event())

    def unlisten(self, listener: Listener) -> None:
        """Stop notifying a listener; do nothing if it is not the current listener."""
        if self._listener is listener:
            self._listener = None

    def now(self) -> int:
        """Return the time of the controller's clock, in nanoseconds."""
        return self._clock()

    def __copy__(self) -> "Controller":
        raise TypeError("A controller cannot be copied; load the file again.")

    def signals(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return the buffers of inputs and outputs in the order of the file. The next tick overwrites them."""
        return dict(self._wiring.inputs), dict(self._engine.outputs)

    def new_engine(self) -> Engine:
        """Create an engine in its initial state, with its own buffers. Only the sessions are shared."""
        return Engine(self._contract, self._runners, self._sizes)

    def _tell(self, event: dict[str, Any]) -> None:
        listener = self._listener  # its own thread may remove it at any time
        if listener is not None:
            listener.on_event(event)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
