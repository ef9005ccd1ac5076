"""Recording and replaying: every tick, exactly, also of a process that was killed."""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exploy.errors import FaultError, LogError, RuntimeInputError
from exploy.runtime import Controller, Guards, Recorder, replay
from exploy.runtime.logs.formats import load_log
from tests.support.environments import make_actor
from tests.support.files import (
    FakeClock,
    exported,
    gather_file,
    reciprocal_file,
    recurrent_file,
    robot_file,
    robot_inputs,
    write,
)
from tests.support.robot import JOINTS, SIM_DT, Robot

FORMATS = pytest.mark.parametrize("ending", ["npz", "mcap"])


def record(path: Path, ticks: int = 30) -> list[dict[str, np.ndarray]]:
    """Record a run of the robot; what the controller returned, tick by tick."""
    controller = Controller.load(robot_file())
    with Recorder(path, controller):
        return [controller.step(robot_inputs(tick)) for tick in range(ticks)]


def fill_the_disk(recorder: Recorder, size: int = 0) -> None:
    """From now on, files of the recorder's process cannot grow beyond this size."""
    resource.prlimit(recorder.process_id, resource.RLIMIT_FSIZE, (size, size))


def record_until_it_fails(recorder: Recorder, controller: Controller) -> None:
    deadline = time.monotonic() + 20
    while recorder.error is None and time.monotonic() < deadline:
        controller.step(robot_inputs())
        time.sleep(0.001)


def wait_until_written(folder: Path, ticks: int) -> bytes:
    """The bytes of a log once the recorder has written some ticks of its own accord, which takes up to a second."""
    (log,) = folder.iterdir()
    deadline = time.monotonic() + 20
    while load_log(log.with_name(log.name.split(".part")[0])).ticks < ticks and time.monotonic() < deadline:
        time.sleep(0.05)
    return log.read_bytes()


# -- what is recorded -----------------------------------------------------------------------------------------


@FORMATS
def test_every_tick_is_recorded_exactly(ending: str, tmp_path: Path) -> None:
    outputs = record(tmp_path / f"run.{ending}")
    log = load_log(tmp_path / f"run.{ending}")
    assert log.ticks == 30
    assert log.tick.tolist() == list(range(30))
    assert (np.diff(log.time) > 0).all() and (log.duration > 0).all()
    assert abs(log.time[0] - time.time_ns()) < 600e9
    for tick in range(30):
        for name, value in robot_inputs(tick).items():
            np.testing.assert_array_equal(log.inputs[name][tick], value, strict=True)
        for name, value in outputs[tick].items():
            np.testing.assert_array_equal(log.outputs[name][tick], value, strict=True)


def test_numpy_alone_reads_an_npz_log(tmp_path: Path) -> None:
    outputs = record(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["outputs/joint_targets"][7], outputs[7]["joint_targets"])
        assert json.loads(str(arrays["header"]))["decimation"] == 4


def test_robot_tools_read_an_mcap_log(tmp_path: Path) -> None:
    from mcap.reader import make_reader

    record(tmp_path / "run.mcap")
    with (tmp_path / "run.mcap").open("rb") as stream:
        reader = make_reader(stream)
        summary = reader.get_summary()
        assert summary is not None and summary.statistics is not None
        topics = {channel.topic: channel for channel in summary.channels.values()}
        assert {"/tick", "/events", "/inputs/joints.pos", "/outputs/joint_targets"} <= set(topics)
        assert json.loads(topics["/inputs/joints.pos"].metadata["names"]) == JOINTS
        messages = list(reader.iter_messages(topics=["/inputs/joints.pos"]))
    assert len(messages) == 30
    schema, _, message = messages[3]
    assert schema is not None and schema.encoding == "jsonschema"
    np.testing.assert_array_equal(
        np.array(json.loads(message.data)["data"], np.float32), robot_inputs(3)["joints.pos"][0]
    )


@FORMATS
def test_resets_ramps_and_faults_are_recorded(ending: str, tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    with Recorder(tmp_path / f"run.{ending}", controller):
        controller.step(robot_inputs(0))
        controller.reset()
        controller.ramp_in("joint_targets", np.ones(3, np.float32), seconds=0.1)
        controller.step(robot_inputs(1))
        bad = robot_inputs(2) | {"cmd": np.array([[np.nan, -np.inf]], np.float32)}
        with pytest.raises(FaultError):
            controller.step(bad)
    log = load_log(tmp_path / f"run.{ending}")
    assert [(event.row, event.content["event"]) for event in log.events] == [(1, "reset"), (1, "ramp_in"), (2, "fault")]
    assert log.events[2].content["inputs"]["cmd"] == ["NaN", "-Infinity"]
    assert log.events[2].content["guard"] == "finite"
    assert log.tick.tolist() == [0, 0]


@FORMATS
def test_values_that_are_not_finite_and_flags_survive(ending: str, tmp_path: Path) -> None:
    controller = Controller.load(reciprocal_file(finite=False))
    with Recorder(tmp_path / f"run.{ending}", controller):
        controller.step({"x": [np.inf, -1.5]})
        controller.step({"x": [-np.inf, 0.1]})
    log = load_log(tmp_path / f"run.{ending}")
    np.testing.assert_array_equal(log.inputs["x"][:, 0, 0], [np.inf, -np.inf])
    assert log.inputs["x"][1, 0, 1] == np.float32(0.1)
    assert replay(log, controller).ok


@FORMATS
def test_an_empty_log_is_a_log(ending: str, tmp_path: Path) -> None:
    record(tmp_path / f"run.{ending}", ticks=0)
    log = load_log(tmp_path / f"run.{ending}")
    assert log.ticks == 0 and log.inputs["cmd"].shape == (0, 1, 2)
    result = replay(log, Controller.load(robot_file()))
    assert not result.ok and "nothing to compare" in str(result)


# -- a killed process -----------------------------------------------------------------------------------------

KILLED = """
import sys, time
from exploy.runtime import Controller, Recorder
from exploy.runtime.controller import Controller
import numpy as np
controller = Controller.load(sys.argv[1])
recorder = Recorder(sys.argv[2], controller)
values = {name: np.full(buffer.shape, 0.1, buffer.dtype) for name, buffer in controller.inputs.items()}
while True:
    controller.step(values)
    print(controller.ticks, flush=True)
    time.sleep(0.01)
"""


@FORMATS
def test_a_log_that_was_cut_off_anywhere_gives_what_is_whole(ending: str, tmp_path: Path) -> None:
    """As a process leaves it that is killed while it writes."""
    controller = Controller.load(robot_file())
    recorder = Recorder(tmp_path / f"run.{ending}", controller)
    for tick in range(40):
        controller.step(robot_inputs(tick))
        if tick == 20:
            wait_until_written(tmp_path, 21)
    data = wait_until_written(tmp_path, 40)
    (written,) = tmp_path.iterdir()
    recorder.close()
    for name in os.listdir(tmp_path):
        (tmp_path / name).unlink()
    seen = set()
    for share in np.linspace(0.3, 1.0, 30):
        written.write_bytes(data[: int(share * len(data))])
        log = load_log(tmp_path / f"run.{ending}")
        seen.add(log.ticks)
        assert log.ticks == 0 or replay(log, controller).ok
    assert max(seen) == 40 and len(seen) > 1


# -- replay ---------------------------------------------------------------------------------------------------


@FORMATS
def test_a_run_with_everything_in_it_replays_exactly(ending: str, tmp_path: Path) -> None:
    controller = Controller.load(robot_file(), guards=Guards(finite="hold"))
    controller.bind("joints.pos", names=JOINTS[::-1])
    with Recorder(tmp_path / f"run.{ending}", controller):
        controller.ramp_in("joint_targets", np.array([1.0, 2.0, 3.0], np.float32), seconds=7 * SIM_DT)
        for tick in range(11):
            controller.step(robot_inputs(tick))
        controller.step(robot_inputs() | {"cmd": np.full((1, 2), np.nan, np.float32)})
        controller.reset()
        for tick in range(10):
            controller.step(robot_inputs(tick))
    result = replay(tmp_path / f"run.{ending}", Controller.load(robot_file()))
    assert result.ok and result.same_file and result.ticks == 21
    assert all(found.worst_error < 1e-6 for found in result.outputs.values())
    assert "21 ticks replayed: agrees" in str(result)


def test_a_replay_does_not_touch_the_controller(tmp_path: Path) -> None:
    record(tmp_path / "run.npz")
    controller, undisturbed = Controller.load(robot_file()), Controller.load(robot_file())
    for tick in range(6):
        expected = undisturbed.step(robot_inputs(tick))["joint_targets"]
        assert replay(tmp_path / "run.npz", controller).ok
        np.testing.assert_array_equal(controller.step(robot_inputs(tick))["joint_targets"], expected)


def test_an_output_that_came_out_otherwise_is_named(tmp_path: Path) -> None:
    record(tmp_path / "run.npz")
    log = load_log(tmp_path / "run.npz")
    log.outputs["joint_targets"][12, 0, 1] += 0.5
    result = replay(log, Controller.load(robot_file()))
    assert not result.ok
    found = result.outputs["joint_targets"]
    assert found.first_tick == 12 and found.first is not None and found.first.index == (0, 1)
    assert result.outputs["actions"].first is None
    assert "joint_targets: worst error 0.5, first at tick 12" in str(result)


def test_a_missing_reset_shows(tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    with Recorder(tmp_path / "run.npz", controller):
        for tick in range(10):
            if tick == 5:
                controller.reset()
            controller.step(robot_inputs(tick))
    log = load_log(tmp_path / "run.npz")
    assert replay(log, controller).ok
    log.events.clear()
    assert not replay(log, controller).ok


def test_another_policy_can_be_run_on_an_old_log(tmp_path: Path) -> None:
    record(tmp_path / "run.npz")
    other = exported(Robot(), make_actor(13, 3).requires_grad_(False), model_source={"run": "other"})
    result = replay(tmp_path / "run.npz", Controller.load(other))
    assert result.ok and not result.same_file
    assert "another file" in str(result)


def test_a_log_of_other_ports_is_refused(tmp_path: Path) -> None:
    record(tmp_path / "run.npz")
    with pytest.raises(LogError, match=r"inputs of the log do not match the file.*joints\.pos float32 \[1, 4\]"):
        replay(tmp_path / "run.npz", Controller.load(recurrent_file()))


def test_a_ramp_that_was_asked_for_before_the_recording_is_in_it(tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    controller.ramp_in("joint_targets", np.full(3, 5.0, np.float32), seconds=np.float32(0.05))
    with Recorder(tmp_path / "run.npz", controller):
        for tick in range(12):
            controller.step(robot_inputs(tick))
    assert replay(tmp_path / "run.npz", Controller.load(robot_file())).ok


def test_outputs_that_random_numbers_reach_are_not_compared(tmp_path: Path) -> None:
    controller = Controller.load(exported(Robot(), Noisy(), allow_random=True))
    with Recorder(tmp_path / "run.npz", controller):
        for tick in range(6):
            controller.step(robot_inputs(tick))
    result = replay(tmp_path / "run.npz", controller)
    assert set(result.missing) == {"actions", "obs", "joint_targets"} and not result.ok
    assert "actions: not compared" in str(result)


class Noisy(torch.nn.Module):
    """Draws its actions."""

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return observations[:, :3] + torch.randn(1, 3)


@FORMATS
def test_the_inputs_of_a_fault_are_those_that_were_given(ending: str, tmp_path: Path) -> None:
    clock = FakeClock()
    controller = Controller.load(robot_file(), clock=clock, hz=1 / SIM_DT)
    controller.bind("joints.pos", names=JOINTS[::-1])
    late = robot_inputs(7)
    with Recorder(tmp_path / f"run.{ending}", controller):
        controller.step(robot_inputs(0))
        clock.advance(1.0)
        with pytest.raises(FaultError, match="after the previous tick"):
            controller.step(late)
    (event,) = load_log(tmp_path / f"run.{ending}").events
    np.testing.assert_array_equal(
        np.array(event.content["inputs"]["joints.pos"], np.float32), late["joints.pos"][0, ::-1]
    )


def test_closing_a_recorder_that_failed_leaves_its_successor_alone(tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    first = Recorder(tmp_path / "first.npz", controller)
    fill_the_disk(first)
    record_until_it_fails(first, controller)
    controller.unlisten(first)
    controller.reset()
    with Recorder(tmp_path / "second.npz", controller):
        controller.step(robot_inputs(0))
        with pytest.raises(LogError):
            first.close()
        controller.step(robot_inputs(1))
    assert load_log(tmp_path / "second.npz").ticks == 2


@FORMATS
def test_a_log_that_is_damaged_in_the_middle_is_refused_or_right(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{ending}"
    record(path, ticks=6)
    data = path.read_bytes()
    rng, controller = np.random.default_rng(0), Controller.load(robot_file())
    for _ in range(150):
        changed = bytearray(data)
        changed[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        try:
            result = replay(path, controller)
        except LogError:
            continue
        assert result.ok and result.ticks == 6


def test_a_log_is_where_it_was_asked_for_after_the_folder_has_changed(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    controller = Controller.load(robot_file())
    with Recorder("run.npz", controller):
        controller.step(robot_inputs())
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_log(tmp_path / "run.npz").ticks == 1


@FORMATS
def test_a_program_that_ends_without_closing_keeps_everything(ending: str, tmp_path: Path) -> None:
    path, log = write(robot_file(), tmp_path), tmp_path / f"run.{ending}"
    code = KILLED.replace("while True:", "for _ in range(20):").replace("    time.sleep(0.01)\n", "")
    subprocess.run([sys.executable, "-c", code, str(path), str(log)], check=True, capture_output=True, timeout=60)
    assert load_log(log).ticks == 20


def test_times_are_those_of_the_world_whatever_the_clock_is(tmp_path: Path) -> None:
    controller = Controller.load(robot_file(), clock=time.monotonic_ns)
    with Recorder(tmp_path / "run.npz", controller):
        controller.step(robot_inputs())
        controller.reset()
    log = load_log(tmp_path / "run.npz")
    assert abs(log.time[0] - time.time_ns()) < 60e9 and abs(log.events[0].time - time.time_ns()) < 60e9


def test_a_file_that_cannot_compute_a_log_is_told(tmp_path: Path) -> None:
    controller = Controller.load(gather_file())
    with Recorder(tmp_path / "run.npz", controller):
        controller.step({"index": [2]})
    log = load_log(tmp_path / "run.npz")
    log.inputs["index"] = np.array([[7]])
    with pytest.raises(LogError, match="cannot compute tick 0 of the log"):
        replay(log, controller)


# -- what cannot be done --------------------------------------------------------------------------------------


@FORMATS
def test_a_log_is_never_overwritten(ending: str, tmp_path: Path) -> None:
    record(tmp_path / f"run.{ending}")
    before = (tmp_path / f"run.{ending}").read_bytes()
    controller = Controller.load(robot_file())
    with pytest.raises(LogError, match="already exists"):
        Recorder(tmp_path / f"run.{ending}", controller)
    assert (tmp_path / f"run.{ending}").read_bytes() == before
    with Recorder(tmp_path / f"other.{ending}", controller):
        controller.step(robot_inputs())


def test_other_endings_missing_logs_and_garbage_are_refused(tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    with pytest.raises(LogError, match=r"must end with \.npz or \.mcap, got 'run\.csv'"):
        Recorder(tmp_path / "run.csv", controller)
    for ending in ("npz", "mcap"):
        with pytest.raises(LogError, match=rf"Log .*missing\.{ending} not found"):
            replay(tmp_path / f"missing.{ending}", controller)
        garbage = write(b"nothing that is a log", tmp_path, f"garbage.{ending}")
        with pytest.raises(LogError, match="not a log of exploy, or is damaged"):
            load_log(garbage)


def test_an_mcap_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    from mcap.writer import Writer

    with (tmp_path / "other.mcap").open("wb") as stream:
        writer = Writer(stream)
        writer.start()
        writer.finish()
    with pytest.raises(LogError, match="not a log of exploy"):
        load_log(tmp_path / "other.mcap")


def test_without_mcap_it_says_what_to_install(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "mcap.py").write_text("raise ImportError('not here')")
    monkeypatch.syspath_prepend(str(tmp_path))  # the process that writes the log looks where this one does
    with pytest.raises(LogError, match=r"^MCAP logs need.*pip install 'exploy\[mcap\]', or log to \.npz"):
        Recorder(tmp_path / "run.mcap", Controller.load(robot_file()))
    assert not (tmp_path / "run.mcap").exists()


def test_recording_starts_at_the_start_of_a_run_and_once(tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    controller.step(robot_inputs())
    with pytest.raises(RuntimeInputError, match="Start recording after a reset"):
        Recorder(tmp_path / "run.npz", controller)
    controller.reset()
    with Recorder(tmp_path / "run.npz", controller) as recorder:
        with pytest.raises(RuntimeInputError, match="already being recorded"):
            Recorder(tmp_path / "second.npz", controller)
        with pytest.raises(RuntimeInputError, match="ramps and recording"):
            controller.bind("joints.pos", names=JOINTS)
    recorder.close()
    assert not (tmp_path / "second.npz").exists()


def test_a_full_disk_does_not_stop_the_robot_and_is_said_at_the_end(tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    recorder = Recorder(tmp_path / "run.npz", controller)
    fill_the_disk(recorder)
    record_until_it_fails(recorder, controller)
    controller.step(robot_inputs())
    with pytest.raises(LogError, match=r"run\.npz is incomplete: File too large\. \d+ of \d+ ticks"):
        recorder.close()
