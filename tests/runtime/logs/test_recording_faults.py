"""Faults of a recording while the loop runs, in a process of its own: the loop goes on, and nothing is lost silently.

Rows of the fault table in docs/controller.md.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from exploy.errors import FaultError, LogError
from exploy.runtime import Controller, Recorder, load_log, replay
from exploy.runtime.logs.npz import part_of
from tests.support.files import robot_file, robot_inputs, write

pytestmark = pytest.mark.expensive

LOOP = """
import json, os, sys, time
import numpy as np
from exploy.errors import LogError
from exploy.runtime import Controller, Guards, Recorder, serve_rate

path, log, ticks = sys.argv[1], sys.argv[2], int(sys.argv[3])
controller = Controller.load(path, guards=Guards(rate="off", overrun="off", stale="off"))
values = {name: np.full(buffer.shape, 0.1, buffer.dtype) for name, buffer in controller.inputs.items()}
recorder = Recorder(log, controller)
written = 0

def write(outputs):
    global written
    written += 1
    if written % 20 == 1:
        print(json.dumps({"writer": recorder.process_id, "ticks": written, "at": time.monotonic()}), flush=True)

safe = {name: np.zeros(buffer.shape, buffer.dtype) for name, buffer in controller.outputs.items()}
served = serve_rate(controller, lambda: values, write, safe=safe, ticks=ticks)
try:
    recorder.close()
    said = ""
except LogError as error:
    said = str(error)
print(json.dumps({"served": served.ticks, "said": said}), flush=True)
"""
FORMATS = pytest.mark.parametrize("ending", ["npz", "mcap"])


class Loop:
    """A loop of 200 ticks a second that is recorded, in a process of its own."""

    def __init__(self, log: Path, ticks: int, **options: Any):
        arguments = [sys.executable, "-c", LOOP, str(write(robot_file(), log.parent)), str(log), str(ticks)]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, **options)
        self.lines: list[dict[str, Any]] = []

    def wait_for_ticks(self, ticks: int) -> int:
        """Wait until the loop has made some ticks; the process that writes its log."""
        while not self.lines or self.lines[-1]["ticks"] < ticks:
            self._read()
        return int(self.lines[-1]["writer"])

    def end(self) -> dict[str, Any]:
        """What the loop says at its end."""
        while "served" not in (self.lines[-1:] or [{}])[0]:
            self._read()
        assert self.process.wait(timeout=20) == 0
        self.close()
        return self.lines[-1]

    def kill(self) -> float:
        """Kill the loop; when it was."""
        self.process.kill()
        moment = time.monotonic()
        self.process.wait(timeout=10)
        self.close()
        return moment

    def ticks_before(self, moment: float) -> int:
        """Ticks that were written a second before a moment."""
        return max(line["ticks"] for line in self.lines if "at" in line and line["at"] < moment - 1.0)

    def close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the loop ended with {self.process.wait()}"
        self.lines.append(json.loads(line))


def wait_until_gone(process: int) -> None:
    deadline = time.monotonic() + 20
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


@pytest.mark.matrix
@FORMATS
def test_when_the_recorder_is_killed_the_loop_goes_on_and_says_so_at_the_end(ending: str, tmp_path: Path) -> None:
    loop = Loop(tmp_path / f"run.{ending}", ticks=600)
    writer = loop.wait_for_ticks(300)
    os.kill(writer, signal.SIGKILL)
    killed = time.monotonic()
    found = loop.end()
    assert found["served"] == 600
    assert "is incomplete: the process that writes it was ended by SIGKILL" in found["said"]
    log = load_log(tmp_path / f"run.{ending}")
    assert not log.is_closed and 600 > log.ticks >= loop.ticks_before(killed)
    assert f"{log.ticks} of 600 ticks were written" in found["said"]
    result = replay(log, Controller.load(robot_file()))
    assert result.ok and "The log was not finished" in str(result)


@pytest.mark.matrix
@FORMATS
def test_when_the_loop_is_killed_its_log_is_finished(ending: str, tmp_path: Path) -> None:
    loop = Loop(tmp_path / f"run.{ending}", ticks=10_000)
    writer = loop.wait_for_ticks(280)
    killed = loop.kill()
    wait_until_gone(writer)
    log = load_log(tmp_path / f"run.{ending}")
    assert log.is_closed and log.ticks >= loop.ticks_before(killed)
    assert log.ticks >= loop.lines[-1]["ticks"] - 1  # all that the loop computed, for memory outlives its process
    assert replay(log, Controller.load(robot_file())).ok


@pytest.mark.matrix
@FORMATS
def test_when_the_disk_is_full_the_loop_goes_on_and_what_was_written_can_be_read(ending: str, tmp_path: Path) -> None:
    loop = Loop(tmp_path / f"run.{ending}", ticks=500)
    resource.prlimit(loop.wait_for_ticks(1), resource.RLIMIT_FSIZE, (60_000, 60_000))
    found = loop.end()
    assert found["served"] == 500 and "is incomplete: File too large" in found["said"]
    read = load_log(tmp_path / f"run.{ending}")
    assert 0 < read.ticks < 500 and f"{read.ticks} of 500 ticks were written" in found["said"]
    assert replay(read, Controller.load(robot_file())).ok


def test_ctrl_c_and_a_hangup_of_the_terminal_do_not_reach_the_recorder(tmp_path: Path) -> None:
    loop = Loop(tmp_path / "run.npz", ticks=10_000, start_new_session=True)
    writer = loop.wait_for_ticks(20)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(writer, number)  # as a service manager does, which signals every process of a service
    os.killpg(loop.process.pid, signal.SIGINT)
    found = loop.end()
    assert found["said"] == "" and load_log(tmp_path / "run.npz").ticks == found["served"]


# -- within one process ---------------------------------------------------------------------------------------


@pytest.mark.matrix
@FORMATS
def test_ticks_that_do_not_fit_into_memory_are_counted_and_their_place_is_told(ending: str, tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    recorder = Recorder(tmp_path / f"run.{ending}", controller)
    for buffer in controller.inputs.values():
        buffer[...] = 0.1
    os.kill(recorder.process_id, signal.SIGSTOP)  # a disk that hangs
    made = 0
    while recorder.lost_ticks < 100:
        controller.tick()
        made += 1
    os.kill(recorder.process_id, signal.SIGCONT)
    lost = recorder.lost_ticks
    deadline = time.monotonic() + 20
    while recorder.lost_ticks == lost and time.monotonic() < deadline:  # until there is room again
        time.sleep(0.1)
        before = recorder.lost_ticks
        controller.tick()
        made += 1
        if recorder.lost_ticks == before:
            break
        lost = recorder.lost_ticks
    controller.reset()
    for tick in range(8):
        controller.step(robot_inputs(tick))
    with pytest.raises(
        LogError, match=rf"{lost} ticks are missing.*{made + 8 - lost} of {made + 8} ticks were written"
    ):
        recorder.close()
    log = load_log(tmp_path / f"run.{ending}")
    gap, reset = log.events
    assert gap.content == {"event": "gap", "ticks": lost} and gap.row == made - lost - 1
    assert reset.content["event"] == "reset" and log.ticks == made + 8 - lost
    result = replay(log, Controller.load(robot_file()))
    assert result.agrees and not result.ok and result.skipped == 1 and "INCOMPLETE: 1 ticks" in str(result)


def test_a_recording_in_a_forked_process_is_left_to_its_owner(tmp_path: Path) -> None:
    """The child holds the pipe too, so the recorder's process must be told in another way that it is over."""
    code = f"""
import os, sys, time
{LOOP.split("path, log")[0]}
controller = Controller.load(sys.argv[1])
recorder = Recorder(sys.argv[2], controller)
ready = os.pipe()
child = os.fork()
if child == 0:
    for _ in range(50):
        controller.step({{name: np.ones(buffer.shape, buffer.dtype) / 2 for name, buffer in controller.inputs.items()}})
    recorder.close()
    os.write(ready[1], b"x")
    time.sleep(30)
    os._exit(0)
os.read(ready[0], 1)
controller.step({{name: np.zeros(buffer.shape, buffer.dtype) for name, buffer in controller.inputs.items()}})
started = time.monotonic()
recorder.close()
os.kill(child, 9)
print(time.monotonic() - started)
"""
    arguments = [sys.executable, "-c", code, str(write(robot_file(), tmp_path)), str(tmp_path / "run.npz")]
    result = subprocess.run(arguments, capture_output=True, text=True, timeout=25)
    assert result.returncode == 0, result.stderr
    assert load_log(tmp_path / "run.npz").ticks == 1


def test_a_link_to_a_log_leads_to_where_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "run.npz").symlink_to(Path("disk") / "today.npz")
    controller = Controller.load(robot_file())
    with Recorder(tmp_path / "run.npz", controller):
        controller.step(robot_inputs())
        assert part_of(tmp_path / "disk" / "today.npz").exists()
        assert load_log(tmp_path / "run.npz").ticks in (0, 1)
    assert (tmp_path / "run.npz").is_symlink() and load_log(tmp_path / "run.npz").ticks == 1
    controller.reset()
    with pytest.raises(LogError, match=r"today\.npz already exists"):
        Recorder(tmp_path / "run.npz", controller)
    (tmp_path / "folder.npz").symlink_to("disk")
    with pytest.raises(LogError, match="is a folder"):
        Recorder(tmp_path / "folder.npz", controller)


def test_the_process_that_writes_imports_neither_onnxruntime_nor_torch() -> None:
    code = "import exploy.runtime.logs.writer_process, exploy.runtime.logs.mcap, sys; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not {"onnxruntime", "torch", "onnx"} & {name.partition(".")[0] for name in result.stdout.split()}


def test_a_recorder_that_another_thread_closes_does_not_disturb_the_loop(tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    inputs = robot_inputs()
    for attempt in range(5):
        controller.reset()
        recorder = Recorder(tmp_path / f"{attempt}.npz", controller)
        closing = threading.Timer(0.02, recorder.close)
        closing.start()
        while closing.is_alive():
            controller.step(inputs)
        for _ in range(100):
            controller.step(inputs)
        assert 0 < load_log(tmp_path / f"{attempt}.npz").ticks <= controller.ticks


def test_a_program_without_standard_streams_records(tmp_path: Path) -> None:
    code = f"""
import os, sys
for stream in (0, 1, 2):
    os.close(stream)
{LOOP.split("path, log")[0]}
controller = Controller.load(sys.argv[1])
with Recorder(sys.argv[2], controller):
    controller.step({{name: np.zeros(buffer.shape, buffer.dtype) for name, buffer in controller.inputs.items()}})
"""
    arguments = [sys.executable, "-c", code, str(write(robot_file(), tmp_path)), str(tmp_path / "run.npz")]
    assert subprocess.run(arguments, timeout=25).returncode == 0
    assert load_log(tmp_path / "run.npz").ticks == 1


@FORMATS
def test_a_log_that_somebody_removes_is_not_closed_in_silence(ending: str, tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    recorder = Recorder(tmp_path / f"run.{ending}", controller)
    controller.step(robot_inputs())
    (written,) = tmp_path.iterdir()
    written.unlink()
    with pytest.raises(LogError, match="was removed while it was written"):
        recorder.close()
    assert not list(tmp_path.iterdir())


def test_paths_that_no_system_knows_are_refused(tmp_path: Path) -> None:
    controller = Controller.load(robot_file())
    for path in (f"{tmp_path}/a\0b.npz", f"{tmp_path}/{'x' * 300}.npz"):
        with pytest.raises(LogError):
            Recorder(path, controller)
        with pytest.raises(LogError):
            load_log(path)


def test_a_program_that_embeds_python_is_not_started_a_second_time(tmp_path: Path, monkeypatch: Any) -> None:
    controller = Controller.load(robot_file())
    (tmp_path / "robot_program").write_text("#!/bin/sh\ntouch started_twice\n")
    (tmp_path / "robot_program").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "robot_program"))
    with Recorder(tmp_path / "run.npz", controller):  # by the interpreter that is installed beside it
        controller.step(robot_inputs())
    assert load_log(tmp_path / "run.npz").ticks == 1
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    controller.reset()
    with pytest.raises(LogError, match="no interpreter was found"):
        Recorder(tmp_path / "second.npz", controller)
    with pytest.raises(FaultError):  # the controller is free again
        controller.step({})
