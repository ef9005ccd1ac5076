"""The loop that keeps a rate, and what it leaves the robot with when it ends."""

import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from exploy.errors import FaultError, RuntimeInputError
from exploy.runtime import Controller, Guards, serve_rate
from tests.support.files import cart_pole_file, made_by_hand, reciprocal_file, robot_file, robot_inputs
from tests.support.robot import SIM_DT

TIMELESS = Guards(rate="off", overrun="off", stale="off")  # the machines that tests run on are noisy


SAFE = {"joint_targets": np.full((1, 3), 0.125)}


def is_safe(outputs: dict[str, np.ndarray]) -> bool:
    return outputs["joint_targets"].tolist() == SAFE["joint_targets"].tolist()


def robot() -> Controller:
    return Controller.load(robot_file(), guards=TIMELESS)


def test_it_reads_ticks_and_writes() -> None:
    controller, reference = robot(), robot()
    written: list[dict[str, np.ndarray]] = []
    count = iter(range(100))
    served = serve_rate(controller, lambda: robot_inputs(next(count)), written.append, ticks=9)
    assert served.ticks == controller.ticks == 9
    assert len(written) == 10  # the last one is the safe command
    for tick in range(9):
        np.testing.assert_array_equal(
            written[tick]["joint_targets"], reference.step(robot_inputs(tick))["joint_targets"]
        )
    np.testing.assert_array_equal(written[9]["joint_targets"], written[8]["joint_targets"])


def test_its_rate_is_that_of_the_file_and_does_not_drift() -> None:
    started = time.perf_counter()
    served = serve_rate(robot(), robot_inputs, lambda outputs: time.sleep(0.3 * SIM_DT), ticks=60)
    assert served.ticks == 60
    assert time.perf_counter() - started >= 59 * SIM_DT


def test_missed_deadlines_are_counted_and_not_made_up_for() -> None:
    moments: list[float] = []

    def read() -> dict[str, Any]:
        moments.append(time.perf_counter())
        if len(moments) == 3:
            time.sleep(6.5 * SIM_DT)
        return robot_inputs()

    served = serve_rate(robot(), read, lambda outputs: None, ticks=8)
    assert served.overruns >= 6
    grid = (np.array(moments) - moments[0]) / SIM_DT
    assert grid[3] >= 8.9  # the next multiple of the period, and no burst before it
    assert (np.diff(grid[3:]) > 0.1).all()


def test_the_first_interrupt_ends_it_after_a_whole_tick_with_a_safe_command() -> None:
    written: list[dict[str, np.ndarray]] = []

    def read() -> dict[str, Any]:
        if len(written) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return robot_inputs()

    before = signal.getsignal(signal.SIGINT)
    served = serve_rate(robot(), read, written.append, safe={"joint_targets": np.zeros((1, 3))})
    assert served.ticks == 6
    assert written[-1]["joint_targets"].tolist() == [[0, 0, 0]]
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_can_stop_it() -> None:
    stop = threading.Event()
    written: list[Any] = []
    controller = robot()
    thread = threading.Thread(
        target=lambda: serve_rate(controller, robot_inputs, written.append, stop=stop), daemon=True
    )
    thread.start()
    while controller.ticks < 5:
        time.sleep(0.001)
    stop.set()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert len(written) == controller.ticks + 1


def test_a_fault_ends_it_with_a_safe_command() -> None:
    written: list[dict[str, np.ndarray]] = []
    values = [robot_inputs(), robot_inputs(), robot_inputs() | {"cmd": np.full((1, 2), np.nan, np.float32)}]
    count = iter(values)
    controller = robot()
    with pytest.raises(FaultError, match="cmd"):
        serve_rate(controller, lambda: next(count), written.append, safe=lambda last: {"joint_targets": [9, 8, 7]})
    assert [command["joint_targets"].tolist() for command in written[2:]] == [[[9, 8, 7]]]
    assert set(written[2]) == {"joint_targets", "actions", "obs"}


@pytest.mark.parametrize("culprit", ["read", "write"])
def test_an_error_of_read_or_write_ends_it_with_a_safe_command(culprit: str) -> None:
    written: list[dict[str, Any]] = []

    def read() -> dict[str, Any]:
        if culprit == "read" and len(written) == 3:
            raise ConnectionError("no bus")
        return robot_inputs()

    def write(outputs: dict[str, Any]) -> None:
        written.append(outputs)
        if culprit == "write" and len(written) == 3:
            raise ConnectionError("no bus")

    with pytest.raises(ConnectionError, match="no bus"):
        serve_rate(robot(), read, write, safe=SAFE)
    assert is_safe(written[3])


def test_without_a_good_tick_nothing_is_written_but_a_command_that_was_given() -> None:
    written: list[dict[str, Any]] = []
    with pytest.raises(FaultError):
        serve_rate(Controller.load(robot_file()), dict, written.append)
    assert written == []
    with pytest.raises(FaultError):
        serve_rate(Controller.load(robot_file()), dict, written.append, safe=SAFE)
    assert [is_safe(command) for command in written] == [True]


def test_positions_are_held_and_velocities_and_efforts_are_zero_at_the_end() -> None:
    from onnx import helper

    from exploy.contract import Contract, Port

    units = {"thrust": "N", "vel_limit": "rad"}
    kinds = {
        "swivel_pos": "joint_position_target",
        "vel_limit": None,
        "a": "joint_velocity_target",
        "b": "joint_effort_target",
        "thrust": None,
    }
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", (1,)),),
        outputs=tuple(Port(name, "float32", (1,), kind=kind, unit=units.get(name)) for name, kind in kinds.items()),
        memories=(),
        sim_dt=0.001,
    )
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in kinds]
    controller = Controller.load(made_by_hand(nodes, contract), guards=TIMELESS)
    written: list[dict[str, np.ndarray]] = []
    serve_rate(controller, lambda: {"x": [3.0]}, written.append, ticks=2)
    left = {name: value.item() for name, value in written[-1].items()}
    assert left == {"swivel_pos": 3, "vel_limit": 3, "a": 0, "b": 0, "thrust": 0}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_end_it_with_a_safe_command_and_do_not_interrupt_that(number: int) -> None:
    written: list[dict[str, Any]] = []

    def write(outputs: dict[str, Any]) -> None:
        if is_safe(outputs):
            os.kill(os.getpid(), number)
        written.append(outputs)
        if len(written) == 4:
            os.kill(os.getpid(), number)

    served = serve_rate(robot(), robot_inputs, write, safe=SAFE)
    assert served.ticks == 4 and is_safe(written[-1])


def test_a_second_signal_interrupts_a_read_that_hangs() -> None:
    written: list[dict[str, Any]] = []

    def read() -> dict[str, Any]:
        if len(written) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return robot_inputs()

    with pytest.raises(KeyboardInterrupt):
        serve_rate(robot(), read, written.append, safe=SAFE)
    assert is_safe(written[-1])


def test_two_signals_at_once_do_not_interrupt_a_write_but_later_ones_do_if_it_hangs() -> None:
    written: list[dict[str, Any]] = []

    def write(outputs: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        if hangs and not is_safe(outputs):
            time.sleep(0.15)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        written.append(outputs)

    hangs = False
    assert serve_rate(robot(), robot_inputs, write, safe=SAFE).ticks == 1
    assert [is_safe(command) for command in written] == [False, True]
    hangs = True
    with pytest.raises(KeyboardInterrupt):
        serve_rate(robot(), robot_inputs, write, safe=SAFE)
    assert [is_safe(command) for command in written] == [False, True, True]


def test_a_second_signal_never_interrupts_the_safe_command() -> None:
    """Two signals at any line of the loop, by a tracer: the last command is the safe one each time."""
    wanted, line = 0, 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal line
        if not frame.f_code.co_filename.endswith(("runtime/loop.py", "runtime/stop_signals.py")):
            return None
        if event == "line":
            line += 1
            if line in (wanted, wanted + 1):
                os.kill(os.getpid(), signal.SIGTERM)
        return trace

    controller = robot()
    for wanted in range(1, 90, 2):
        line = 0
        written: list[dict[str, np.ndarray]] = []
        controller.reset()
        handlers = [signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)]
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            serve_rate(controller, robot_inputs, written.append, ticks=2, safe=SAFE)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
            for number, handler in zip((signal.SIGTERM, signal.SIGINT), handlers, strict=True):
                signal.signal(number, handler)
        assert [is_safe(command) for command in written] == [False] * (len(written) - 1) + [True], wanted


def test_signals_within_signals_do_not_block_it() -> None:
    """A handler that took a lock would wait for itself."""
    stop = threading.Event()

    def read() -> dict[str, Any]:
        with stop._cond:  # type: ignore[attr-defined]  # what the event itself does while it is set
            os.kill(os.getpid(), signal.SIGHUP)
        return robot_inputs()

    served = serve_rate(robot(), read, lambda outputs: None, stop=stop)
    assert served.ticks == 1 and not stop.is_set()


def test_a_handler_of_the_user_for_another_signal_is_left_alone() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        served = serve_rate(robot(), robot_inputs, lambda outputs: os.kill(os.getpid(), signal.SIGUSR1), ticks=2)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert served.ticks == 2 and len(seen) == 3
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


def test_under_nohup_a_dropped_connection_does_not_end_it() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        served = serve_rate(robot(), robot_inputs, lambda outputs: os.kill(os.getpid(), signal.SIGHUP), ticks=3)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert served.ticks == 3


def test_a_signal_ends_a_slow_loop_without_waiting_for_its_next_tick() -> None:
    controller = Controller.load(reciprocal_file({"unit": "N"}), guards=TIMELESS)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    started = time.perf_counter()
    assert serve_rate(controller, lambda: {"x": [1.0, 1.0]}, lambda outputs: None, hz=0.01).ticks == 1
    assert time.perf_counter() - started < 10


def test_a_heartbeat_is_called_once_a_tick_after_the_outputs_were_written() -> None:
    events: list[str] = []
    controller = Controller.load(robot_file(), guards=Guards(finite="hold", rate="off", overrun="off", stale="off"))
    values = iter([robot_inputs(), robot_inputs() | {"cmd": np.full((1, 2), np.nan, np.float32)}, robot_inputs()])

    def read() -> dict[str, Any]:
        events.append("read")
        return next(values)

    def beat() -> None:
        events.append("beat" if controller.fault is None else "beat while held")

    serve_rate(controller, read, lambda outputs: events.append("write"), ticks=3, heartbeat=beat)
    held = ["read", "write", "beat while held"]
    assert events == ["read", "write", "beat", *held, *held, "write"]
    with pytest.raises(RuntimeInputError, match="heartbeat must be a function"):
        serve_rate(controller, read, print, heartbeat=3)  # type: ignore[arg-type]


def test_a_safe_function_that_raises_does_not_keep_the_safe_command_from_being_written() -> None:
    written: list[dict[str, Any]] = []

    def fail(last: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        serve_rate(robot(), robot_inputs, written.append, ticks=2, safe=fail)
    assert len(written) == 3
    with pytest.raises(RuntimeInputError, match="safe must be a dictionary of outputs, or a function"):
        serve_rate(robot(), robot_inputs, written.append, ticks=2, safe="hold")  # type: ignore[arg-type]


def test_a_write_that_changes_what_it_gets_does_not_change_the_safe_command() -> None:
    seen: list[float] = []

    def write(outputs: dict[str, Any]) -> None:
        seen.append(float(outputs["joint_targets"][0, 0]))
        outputs["joint_targets"] += 100.0

    serve_rate(robot(), robot_inputs, write, ticks=2)
    assert seen[2] == seen[1]


def test_the_demo_ends_without_force() -> None:
    controller = Controller.load(cart_pole_file(), guards=TIMELESS)
    values = {name: np.full_like(buffer, 0.1) for name, buffer in controller.inputs.items()}
    written: list[dict[str, np.ndarray]] = []
    serve_rate(controller, lambda: values, written.append, ticks=3)
    assert written[-2]["force"].any() and not written[-1]["force"].any()


def test_a_fault_that_holds_is_told() -> None:
    controller = Controller.load(robot_file(), guards=Guards(finite="hold", rate="off", overrun="off", stale="off"))
    bad = robot_inputs() | {"cmd": np.full((1, 2), np.nan, np.float32)}
    values = iter([robot_inputs(), bad, robot_inputs(), robot_inputs()])
    served = serve_rate(controller, lambda: next(values), lambda outputs: None, ticks=4)
    assert served.fault is not None and served.fault.port == "cmd"
    assert (served.ticks, controller.ticks) == (4, 1)


def test_it_leaves_a_rate_that_was_armed_armed() -> None:
    controller = Controller.load(robot_file(), guards=TIMELESS, hz=200)
    serve_rate(controller, robot_inputs, lambda outputs: None, ticks=1)
    assert controller.hz == 200


def test_time_is_watched_only_while_it_runs() -> None:
    controller = Controller.load(robot_file(), guards=Guards(patience=1000))
    serve_rate(controller, robot_inputs, lambda outputs: None, ticks=3)
    time.sleep(0.2)
    outputs = controller.step(robot_inputs())
    assert controller.fault is None and controller.ticks == 4
    assert np.isfinite(outputs["joint_targets"]).all()


def test_a_rate_that_is_not_known_or_not_that_of_the_file_is_refused() -> None:
    with pytest.raises(RuntimeInputError, match=r"tick rate is not in the file\. Pass hz="):
        serve_rate(Controller.load(reciprocal_file()), dict, print)
    with pytest.raises(RuntimeInputError, match="made for 200 ticks per second"):
        serve_rate(robot(), robot_inputs, print, hz=50)
