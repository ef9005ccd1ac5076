"""Faults, each injected: what the controller then does, for every action that can be chosen."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from exploy.errors import FaultError, RuntimeInputError
from exploy.runtime import Controller, Fault, Guard, Guards
from tests.support.files import (
    FakeClock,
    gather_file,
    overflowing_file,
    reciprocal_file,
    recurrent_file,
    robot_file,
    robot_inputs,
)
from tests.support.robot import SIM_DT
from tests.support.slow_backend import steps_that_wait

HZ = 1 / SIM_DT


class Bench:
    """A robot's controller on a clock that the test moves, after some good ticks."""

    def __init__(self, data: bytes, inputs: dict[str, Any], **options: Any):
        self.clock = FakeClock()
        self.calls: list[Fault] = []
        self.answer: dict[str, Any] | None = None
        self.step_takes = 0.0
        with steps_that_wait(lambda: self.clock.advance(self.step_takes)):
            self.controller = Controller.load(data, clock=self.clock, on_fault=self._on_fault, **options)
        self.inputs = inputs
        for _ in range(3):
            self.good = self.controller.step(inputs)
            self.clock.advance(SIM_DT)

    def _on_fault(self, fault: Fault) -> dict[str, Any] | None:
        self.calls.append(fault)
        return self.answer


def robot_bench(**options: Any) -> Bench:
    return Bench(robot_file(), robot_inputs(), **options)


def missing(bench: Bench) -> None:
    bench.controller.step({name: value for name, value in bench.inputs.items() if name != "cmd"})


def unknown(bench: Bench) -> None:
    bench.controller.step(bench.inputs | {"joint.pos": np.zeros((1, 4), np.float32)})


def misspelt(bench: Bench) -> None:
    values = dict(bench.inputs)
    values["joint.pos"] = values.pop("joints.pos")
    bench.controller.step(values)


def no_dictionary(bench: Bench) -> None:
    bench.controller.step(list(bench.inputs.values()))  # type: ignore[arg-type]


def wrong_shape(bench: Bench) -> None:
    bench.controller.step(bench.inputs | {"joints.vel": np.zeros((1, 5), np.float32)})


def transposed(bench: Bench) -> None:
    bench.controller.step(bench.inputs | {"joints.vel": np.zeros((4, 1), np.float32)})


def scalar_for_vector(bench: Bench) -> None:
    bench.controller.step(bench.inputs | {"joints.vel": 0.0})


def wrong_type(bench: Bench) -> None:
    bench.controller.step(bench.inputs | {"joints.vel": np.zeros((1, 4), np.complex64)})


def no_numbers(bench: Bench) -> None:
    bench.controller.step(bench.inputs | {"joints.vel": "fast"})


def nothing(bench: Bench) -> None:
    bench.controller.step(bench.inputs | {"joints.vel": None})


def with_value(name: str, value: float) -> Callable[[Bench], None]:
    def inject(bench: Bench) -> None:
        values = {key: array.copy() for key, array in bench.inputs.items()}
        values[name][0, 1] = value
        bench.controller.step(values)

    return inject


def late_ticks(bench: Bench) -> None:
    for _ in range(3):
        bench.clock.advance(0.8 * SIM_DT)
        bench.controller.step(bench.inputs)
        bench.clock.advance(SIM_DT)


def early_ticks(bench: Bench) -> None:
    bench.clock.advance(-0.9 * SIM_DT)
    for _ in range(3):
        bench.controller.step(bench.inputs)
        bench.clock.advance(0.1 * SIM_DT)


def a_long_pause(bench: Bench) -> None:
    bench.clock.advance(0.1)
    bench.controller.step(bench.inputs)


def slow_steps(bench: Bench) -> None:
    bench.step_takes = 1.2 * SIM_DT
    for _ in range(3):
        bench.controller.step(bench.inputs)


def a_very_slow_step(bench: Bench) -> None:
    bench.step_takes = 0.05
    bench.controller.step(bench.inputs)


def old_measurement(bench: Bench) -> None:
    bench.controller.step(bench.inputs, ages={"joints.vel": 0.1})


def forgotten_refreshment(bench: Bench) -> None:
    for _ in range(20):
        bench.controller.refreshed("joints.pos", "cmd")
        bench.controller.tick()
        bench.clock.advance(SIM_DT)


# name, what is injected, the guard that trips, the port it names, what the message says
FAULTS: dict[str, tuple[Callable[[Bench], None], Guard, str | None, str]] = {
    "missing input": (missing, Guard.INPUTS, None, r"Missing: cmd"),
    "unknown input": (unknown, Guard.INPUTS, None, r"Unknown: joint\.pos"),
    "misspelt input": (misspelt, Guard.INPUTS, None, r"Missing: joints\.pos\. Unknown: joint\.pos"),
    "no dictionary": (no_dictionary, Guard.INPUTS, None, r"dictionary of arrays by name, got list"),
    "wrong shape": (wrong_shape, Guard.INPUTS, None, r"'joints\.vel' must be float32 \[1, 4\], got float32 \[1, 5\]"),
    "transposed": (transposed, Guard.INPUTS, None, r"'joints\.vel' must be float32 \[1, 4\], got float32 \[4, 1\]"),
    "scalar": (scalar_for_vector, Guard.INPUTS, None, r"'joints\.vel' must be float32 \[1, 4\], got float32 \[\]"),
    "wrong type": (wrong_type, Guard.INPUTS, None, r"complex64 cannot be converted to float32 without loss"),
    "no numbers": (no_numbers, Guard.INPUTS, None, r"'joints\.vel' must be float32 \[1, 4\], got str"),
    "nothing": (nothing, Guard.INPUTS, None, r"'joints\.vel' must be float32 \[1, 4\], got NoneType"),
    "NaN in": (with_value("joints.vel", np.nan), Guard.FINITE, "joints.vel", r"element \[0, 1\] \(knee\), is nan"),
    "infinite in": (with_value("joints.vel", np.inf), Guard.FINITE, "joints.vel", r"\(knee\), is inf"),
    "below limits": (with_value("cmd", -2.5), Guard.LIMITS, "cmd", r"\(turn\), is -2\.5; its limits are -2 and 2"),
    "above limits": (with_value("joints.pos", 9.5), Guard.LIMITS, "joints.pos", r"is 9\.5; its limits are -9 and 9"),
    "output beyond limits": (
        with_value("joints.vel", 1e6), Guard.LIMITS, "joint_targets", r"the output 'joint_targets', .* -50 and 50"
    ),
    "late": (late_ticks, Guard.RATE, None, r"ms after the previous tick, expected 5\.00 ms at 200 Hz"),
    "early": (early_ticks, Guard.RATE, None, r"0\.50 ms after the previous tick"),
    "pause": (a_long_pause, Guard.RATE, None, r"105\.00 ms after the previous tick"),
    "overruns": (slow_steps, Guard.OVERRUN, None, r"took 6\.00 ms, but the period at 200 Hz is 5\.00 ms \(3 in a row"),
    "one long overrun": (a_very_slow_step, Guard.OVERRUN, None, r"took 50\.00 ms"),
    "old measurement": (old_measurement, Guard.STALE, "joints.vel", r"refresh: 100\.00 ms ago, maximum age: 40\.00 ms"),
    "no refreshment": (forgotten_refreshment, Guard.STALE, "joints.vel", r"'joints\.vel' is stale"),
}  # fmt: skip
CASES = pytest.mark.parametrize("fault", FAULTS)


def bench_for(fault: str, action: str) -> tuple[Bench, Callable[[Bench], None], Guard]:
    inject, guard, _, _ = FAULTS[fault]
    bench = robot_bench(guards=Guards(**{guard.value: action}), hz=HZ)  # type: ignore[arg-type]
    return bench, inject, guard


@CASES
def test_every_fault_raises_and_is_latched_until_a_reset(fault: str) -> None:
    inject, guard, port, message = FAULTS[fault]
    bench = robot_bench(hz=HZ)
    with pytest.raises(FaultError, match=message) as caught:
        inject(bench)
    assert (caught.value.fault.guard, caught.value.fault.port) == (guard, port)
    assert bench.controller.fault is caught.value.fault
    ticks = bench.controller.ticks
    for use in (lambda: bench.controller.step(bench.inputs), bench.controller.tick):
        with pytest.raises(FaultError, match=r"stopped after a fault; call reset\("):
            use()
    assert bench.controller.ticks == ticks
    bench.controller.reset()
    assert bench.controller.fault is None
    if guard is not Guard.OVERRUN:  # the injected slowness is still there
        bench.controller.step(bench.inputs)
        assert bench.controller.ticks == 1


@CASES
def test_on_request_the_last_good_outputs_are_held_instead(fault: str) -> None:
    bench, inject, guard = bench_for(fault, "hold")
    inject(bench)
    assert bench.controller.fault is not None and bench.controller.fault.guard is guard
    held = {name: array.copy() for name, array in bench.controller.outputs.items()}
    assert all(np.isfinite(array).all() for array in held.values())
    for _ in range(3):
        results = bench.controller.step(bench.inputs)
        for name, value in results.items():
            np.testing.assert_array_equal(value, held[name])
    if guard in (Guard.INPUTS, Guard.FINITE, Guard.LIMITS):
        for name, value in bench.good.items():
            np.testing.assert_array_equal(held[name], value)


@CASES
def test_on_request_a_function_is_called_once_and_chooses_the_outputs(fault: str) -> None:
    bench, inject, guard = bench_for(fault, "call")
    bench.answer = {"joint_targets": np.full((1, 3), 0.25, np.float32)}
    inject(bench)
    results = bench.controller.step(bench.inputs)
    assert [call.guard for call in bench.calls] == [guard]
    assert results["joint_targets"].tolist() == [[0.25, 0.25, 0.25]]


@CASES
def test_a_guard_that_is_off_does_not_look(fault: str) -> None:
    bench, inject, _ = bench_for(fault, "off")
    if fault in ("no dictionary", "wrong shape", "transposed", "scalar", "wrong type", "no numbers", "nothing"):
        with pytest.raises(FaultError):  # nothing that could be taken
            inject(bench)
        return
    if fault in ("NaN in", "infinite in"):
        bench = robot_bench(guards=Guards(finite="off", limits="off"))
    inject(bench)
    assert bench.controller.fault is None


def test_an_output_that_is_not_finite_is_never_seen() -> None:
    controller = Controller.load(reciprocal_file(), guards=Guards(finite="hold"), on_stop={"y": "hold"})
    controller.step({"x": [2.0, 4.0]})
    assert controller.step({"x": [0.0, 4.0]})["y"].tolist() == [[0.5, 0.25]]
    assert controller.outputs["y"].tolist() == [[0.5, 0.25]]
    assert controller.fault is not None and "output 'y', element [0, 0], is inf" in controller.fault.message


def test_the_tick_of_a_fault_is_not_counted_and_a_reset_forgets_what_it_computed() -> None:
    controller = Controller.load(recurrent_file(with_is_init=False))
    first = controller.step({"x": [1.0, 1.0]})["y"]
    with pytest.raises(FaultError):
        controller.step({"x": [np.nan, 1.0]})
    assert controller.ticks == 1
    controller.reset()
    np.testing.assert_array_equal(controller.step({"x": [1.0, 1.0]})["y"], first)


def test_a_memory_that_overflows_is_named() -> None:
    controller = Controller.load(overflowing_file())
    assert controller.step({"x": [1.0]})["y"].tolist() == [1.0]
    for _ in range(3):
        controller.step({"x": [1e38]})
    with pytest.raises(FaultError, match=r"the memory 'total', element \[0\], became inf"):
        controller.step({"x": [1e38]})


def test_values_that_are_merely_large_are_fine() -> None:
    controller = Controller.load(reciprocal_file())
    np.testing.assert_allclose(controller.step({"x": [1e30, -1e38]})["y"], [[1e-30, -1e-38]], rtol=1e-6)


def test_a_step_that_cannot_be_computed_is_a_fault() -> None:
    controller = Controller.load(gather_file())
    assert controller.step({"index": np.array([1])})["y"].tolist() == [2.0]
    with pytest.raises(FaultError, match=r"onnxruntime cannot compute this step.*indices") as caught:
        controller.step({"index": np.array([7])})
    assert caught.value.fault.guard is Guard.EXECUTION
    assert caught.value.__cause__ is None
    held = Controller.load(gather_file(), guards=Guards(execution="hold"), on_stop={"y": "hold"})
    held.step({"index": np.array([1])})
    assert held.step({"index": np.array([7])})["y"].tolist() == [2.0]


def test_a_range_sensor_may_be_infinite_where_the_file_says_so() -> None:
    for limits in (None, (0.0, 10.0)):
        controller = Controller.load(reciprocal_file(finite=False, limits=limits))
        assert controller.step({"x": [np.inf, 2.0]})["y"].tolist() == [[0.0, 0.5]]
    with pytest.raises(FaultError, match="its limits are 0 and 10"):
        controller.step({"x": [np.inf, 11.0]})


def test_a_fault_that_is_interrupted_raises_all_the_same() -> None:
    class Interrupted:
        def on_tick(self, tick: int, started: int, duration: int) -> None:
            pass

        def on_event(self, event: dict[str, Any]) -> None:
            raise KeyboardInterrupt

    controller = Controller.load(reciprocal_file())
    listener = Interrupted()
    controller.listen(listener)
    with pytest.raises(KeyboardInterrupt):
        controller.step({"x": [0.0, 1.0]})
    with pytest.raises(FaultError, match="stopped after a fault"):
        controller.step({"x": [1.0, 1.0]})
    controller.unlisten(listener)
    controller.reset()
    assert controller.step({"x": [1.0, 2.0]})["y"].tolist() == [[1.0, 0.5]]


@pytest.mark.parametrize("action", ["hold", "call"])
def test_with_nothing_to_hold_a_fault_raises(action: Any) -> None:
    controller = Controller.load(robot_file(), guards=Guards(finite=action), on_fault=lambda fault: None)
    inputs = robot_inputs() | {"cmd": np.full((1, 2), np.nan, np.float32)}
    for _ in range(2):
        with pytest.raises(FaultError, match=r"no outputs of an earlier tick to hold|stopped after a fault"):
            controller.step(inputs)


def test_after_a_reset_there_is_nothing_to_hold() -> None:
    bench = robot_bench(guards=Guards(inputs="hold"))
    bench.controller.reset()
    with pytest.raises(FaultError, match="no outputs of an earlier tick"):
        missing(bench)


def test_what_is_called_may_choose_all_outputs_before_the_first_tick() -> None:
    chosen = {"y": [[1.0, 2.0]]}
    controller = Controller.load(reciprocal_file(), guards=Guards(finite="call"), on_fault=lambda fault: chosen)
    assert controller.step({"x": [0.0, 1.0]})["y"].tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"targets": 0.0}, r"on_fault: unknown outputs targets\. The outputs are"),
        ({"y": [1.0]}, r"on_fault: 'y' must be float32 \[1, 2\]"),
        ({"y": [1.0, np.nan]}, r"on_fault: 'y' must be finite, got \[\[1\.0, nan\]\]"),
        ({"y": [1.0, -6.0]}, r"on_fault: 'y' must be within its limits \(-5\.0, 5\.0\), got \[\[1\.0, -6\.0\]\]"),
        (5, "on_fault: expected a dictionary of outputs, got 5"),
    ],
)
def test_what_is_called_must_return_outputs_otherwise_the_robot_is_stopped(answer: Any, message: str) -> None:
    data = reciprocal_file(output={"limits": (-5.0, 5.0), "unit": "N"})
    controller = Controller.load(data, guards=Guards(finite="call"), on_fault=lambda fault: answer, hold_for=1.0)
    controller.step({"x": [1.0, 1.0]})
    with pytest.raises(RuntimeInputError, match=message):
        controller.step({"x": [0.0, 1.0]})
    assert controller.outputs["y"].tolist() == [[0.0, 0.0]]
    with pytest.raises(FaultError, match="stopped after a fault"):
        controller.step({"x": [1.0, 1.0]})


def test_an_input_with_an_allowed_age_may_be_left_out_for_that_long() -> None:
    bench = robot_bench(hz=HZ, max_age={"cmd": 0.1}, guards=Guards(rate="off"))
    fast = {name: value for name, value in bench.inputs.items() if name != "cmd"}
    for _ in range(20):
        bench.controller.step(fast)
        bench.clock.advance(SIM_DT)
    with pytest.raises(FaultError, match=r"'cmd' is stale \(last refresh: 105\.00 ms ago, maximum age: 100\.00 ms\)"):
        bench.controller.step(fast)


def test_time_is_not_watched_before_a_rate_is_armed_and_after_it_is_disarmed() -> None:
    bench = robot_bench()
    a_long_pause(bench)
    bench.controller.arm(HZ)
    bench.controller.step(bench.inputs)
    bench.controller.disarm()
    a_long_pause(bench)
    assert bench.controller.fault is None


def ticked(bench: Bench, *times: float) -> int | None:
    """Tick at these times, in periods after the last tick; return the number of the tick that was a fault."""
    start = bench.clock.now - round(1e9 * SIM_DT)
    for count, time in enumerate(times):
        bench.clock.now = start + round(1e9 * SIM_DT * time)
        bench.controller.step(bench.inputs)
        if bench.controller.fault is not None:
            assert bench.controller.fault.guard is Guard.RATE
            return count
    return None


def every(period: float, ticks: int = 400) -> list[float]:
    return [period * count for count in range(1, ticks + 1)]


# times of ticks in periods, and the tick that is a fault; None if there is none
RATES: dict[str, tuple[list[float], int | None]] = {
    "on time": (every(1.0), None),
    "jitter": ([count + 0.4 * (-1) ** count for count in range(1, 400)], None),
    "late, then on the old grid": ([1, 2.8, 3, 4, 5.8, 6, 7, 8.8, 9, 10], None),
    "late, then on from there": ([1, 2.8, 3.8, 4.8, 6.6, 7.6, 8.6, 10.4, 11.4, 12.4], None),
    "two missed, then the old grid": ([1, 4.0, 5, 6, 9.0, 10, 11], None),
    "two missed, then made up for": ([1, 4.0, 4.1, 4.2, 5, 6, 9.0, 9.1, 9.2, 10, 11], None),
    "a slow first read": ([0.3, 1.3, 2.3, 3.3, 4.3, 5.3, 6.3], None),
    "somewhat late three times, then on from there": ([1, 2.4, 3.4, 4.8, 5.8, 7.2, 8.2, 9.2, 10.2, 11.2], None),
    "a clock that is 4 % off": (every(1.04), None),
    "a clock that is 4 % off, the other way": (every(0.96), None),
    "three missed at once": ([1, 5.0], 1),
    "late at every second tick, none left out": ([1.8, 2, 3.8, 4, 5.8, 6, 7.8, 8, 9.8, 10], None),
    "two late wake-ups in five periods": ([1.05, 3.6, 4, 5.8, 6, 7], None),
    "late three times in six periods": ([2.14, 2.17, 3, 4.7, 6.6, 7, 8], None),
    "one of three ticks left out": ([2.9, 3, 5.9, 6, 8.9, 9], 2),
    "a quarter of the rate": (every(4.0), 0),
    "half of the rate": (every(2.0), 2),
    "three quarters of the rate": (every(4 / 3), 8),
    "a drift of 10 %": (every(1.1), 49),
    "a drift of 10 %, too fast": (every(0.9), 49),
    "twice the rate": (every(0.5), 4),
    "twice the rate, unevenly": ([0.4, 1, 1.4, 2, 2.4, 3, 3.4, 4], 4),
    "a quarter more": (every(0.8), 16),
    "three times the rate": (every(1 / 3), 3),
    "a burst": ([1, 1.1, 1.2, 1.3, 1.4], 3),
    "more than made up for": ([1, 3.0, 3.1, 3.2, 3.3, 3.4], 5),
    "a deadline skipped that had just passed": ([1, 2.99, 4, 5, 6.99, 8, 9], None),
}


@pytest.mark.parametrize("case", RATES)
def test_ticks_are_judged_against_the_grid_of_deadlines(case: str) -> None:
    times, fault = RATES[case]
    bench = robot_bench(hz=HZ, guards=Guards(rate="hold", stale="off"))
    assert ticked(bench, *times) == fault


def test_patience_counts_missed_periods() -> None:
    for patience, late, fault in ((0, 1.4, None), (0, 1.6, 0), (5, 6.4, None), (5, 6.6, 0)):
        bench = robot_bench(hz=HZ, guards=Guards(rate="hold", stale="off", patience=patience))
        assert ticked(bench, late) == fault, (patience, late)
    strict = robot_bench(hz=HZ, guards=Guards(patience=0))
    strict.clock.advance(SIM_DT)
    with pytest.raises(FaultError, match=r"10\.00 ms after the previous tick, expected 5\.00 ms.*periods missed: 1"):
        strict.controller.step(strict.inputs)


def test_overruns_are_counted() -> None:
    bench = robot_bench(hz=HZ, guards=Guards(overrun="off", rate="off"))
    slow_steps(bench)
    assert bench.controller.stats.overruns == 3


def test_the_rate_of_another_simulation_is_refused() -> None:
    with pytest.raises(RuntimeInputError, match=r"made for 200 ticks per second .*every 4 ticks.*got hz=50"):
        Controller.load(robot_file(), hz=50)
    for bad in (0, -1, float("inf"), float("nan"), "fast", True):
        with pytest.raises(RuntimeInputError, match="positive number of ticks"):
            Controller.load(reciprocal_file(), hz=bad)
    assert Controller.load(robot_file(), hz=200).step(robot_inputs())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": "ignore"}, "inputs must be one of raise, hold, call, off, got 'ignore'"),
        ({"execution": "off"}, "cannot be disabled"),
        ({"patience": -1}, "patience an integer of 0 or more"),
        ({"patience": float("nan")}, "patience an integer"),
        ({"rate_tolerance": 0.0}, "rate_tolerance must be a positive number"),
        ({"rate_tolerance": None}, "rate_tolerance must be a positive number"),
    ],
)
def test_guards_refuse_what_they_cannot_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeInputError, match=message):
        Guards(**options)


def test_calling_needs_something_to_call() -> None:
    for nothing_to_call in (None, {"joint_targets": np.zeros((1, 3))}):
        with pytest.raises(RuntimeInputError, match="on_fault= must be a function"):
            Controller.load(robot_file(), guards=Guards(finite="call"), on_fault=nothing_to_call)


def test_with_all_guards_off_only_what_can_be_computed_is_computed() -> None:
    controller = Controller.load(robot_file(), guards=Guards.off())
    controller.step({name: value.astype(np.float64) for name, value in robot_inputs().items()})
    assert np.isnan(controller.step({"joints.vel": np.full((1, 4), np.nan)})["joint_targets"]).any()


@pytest.mark.parametrize("max_age", [{"speed": 1.0}, {"cmd": 0.0}, {"cmd": "long"}])
def test_ages_must_be_seconds_of_inputs(max_age: dict[str, Any]) -> None:
    with pytest.raises(RuntimeInputError, match="max_age must have positive seconds"):
        Controller.load(robot_file(), max_age=max_age)


def test_refreshments_of_unknown_inputs_are_refused() -> None:
    with pytest.raises(RuntimeInputError, match=r"Unknown input speed\. The inputs are joints\.pos"):
        Controller.load(robot_file()).refreshed("speed")
