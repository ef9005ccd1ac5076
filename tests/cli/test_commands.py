"""Output and exit code of every command; each runs once through the installed entry point."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import exploy
from exploy.runtime import Controller, Recorder
from tests.support.command_line import EXPLOY, FACTORIES, ROOT, assert_fails, run, run_installed
from tests.support.files import cart_pole_file, file_of_robot_in_simulation, robot_file, robot_inputs, write

COMMANDS = [
    "demo",
    "inspect",
    "discover",
    "check",
    "export",
    "compile",
    "verify",
    "bench",
    "diff",
    "run",
    "view",
    "report",
]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return write(robot_file(), tmp_path)


# -- all commands ---------------------------------------------------------------------------------------------


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    result = run_installed("--help")
    assert result.returncode == 0
    for command in COMMANDS:
        assert f" {command} " in result.stdout
    code = "import sys\nfrom exploy.cli.app import app\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "onnx", "onnxruntime", "numpy", "jinja2", "vl_convert", "netron"} & set(loaded)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.returncode == 0
    assert f"exploy {command}" in " ".join(result.stdout.split())
    assert "Example:" in result.stdout


def test_the_version_and_completion() -> None:
    assert run("--version").stdout.strip() == exploy.__version__
    completion = run_installed("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_EXPLOY_COMPLETE" in completion.stdout


def test_without_arguments_there_is_help_and_an_unknown_command_is_refused() -> None:
    assert "Usage" in run().stdout
    assert run("fly").returncode == 2


def test_without_typer_it_says_what_to_install() -> None:
    with mock.patch.dict(sys.modules, {"typer": None}):
        sys.modules.pop("exploy.cli.app", None)
        result = run()
    assert_fails(result, "pip install 'exploy[cli]'")
    assert "typer" in result.stderr


def test_debug_shows_where_an_error_comes_from(tmp_path: Path) -> None:
    result = run("--debug", "inspect", tmp_path / "missing.onnx")
    assert result.returncode == 2 and "Traceback" in result.stderr
    assert "Traceback" not in run("inspect", tmp_path / "missing.onnx").stderr


def test_colours_are_for_terminals_that_want_them(policy: Path) -> None:
    assert "\x1b[" not in run("inspect", policy).stdout
    assert "\x1b[3" in run("verify", policy, FORCE_COLOR="1").stdout
    assert "\x1b[3" not in run("verify", policy, FORCE_COLOR="1", NO_COLOR="1").stdout


# -- inspect --------------------------------------------------------------------------------------------------


def test_inspect_tells_what_a_file_is(policy: Path) -> None:
    result = run_installed("inspect", policy)
    assert result.returncode == 0 and result.stderr == ""
    for text in (
        "opset 20, IR 11",
        "ticks at 200 Hz, policy every 4 ticks (50 Hz)",
        "joints.pos",
        "hip, knee, ankle, toe",
        "rad/s",
        "stiffness [10, 20, 30.125]",
        "memory last float32 [1, 3], starts from zeros, registered",
        "carried from policy step to sub-steps",
        "12 ticks",
        "torch 2.",
        "observation obs [0:13]",
    ):
        assert text in result.stdout, text


def test_inspect_tells_what_a_robot_cannot_have(policy: Path, tmp_path: Path) -> None:
    shown = run("inspect", write(file_of_robot_in_simulation(), tmp_path, "told.onnx")).stdout
    assert "source" in shown
    assert "A robot cannot have joints.pos: only a simulator knows it." in shown
    assert "An estimator must give joints.vel: a robot does not measure it." in shown
    assert "It is not told whether a robot can have cmd." in shown
    untold = run("inspect", policy).stdout
    assert "source" not in untold and "A robot" not in untold


def test_inspect_as_json(policy: Path) -> None:
    document = json.loads(run("inspect", policy, "--json").stdout)
    assert document["bytes"] == len(robot_file())
    assert document["contract"]["decimation"] == 4
    assert document["contract"]["trace"] == {"ticks": 12, "tolerance": 1e-4}


@pytest.mark.parametrize("command", ["inspect", "verify", "bench", "view", "report"])
def test_what_is_no_exported_file_is_refused(command: str, tmp_path: Path) -> None:
    assert_fails(run(command, tmp_path / "missing.onnx"), "No such file")
    assert_fails(run(command, write(b"hello", tmp_path, "text.onnx")), "not an ONNX file")


# -- check and export -----------------------------------------------------------------------------------------


@pytest.mark.expensive
def test_check_of_a_complete_environment() -> None:
    result = run_installed("check", f"{FACTORIES}:robot")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "No errors or warnings, ready to export" in result.stdout


def test_check_and_export_tell_what_a_robot_cannot_have(tmp_path: Path) -> None:
    checked = run("check", f"{FACTORIES}:robot_in_simulation", "--steps", 3, "--no-lower", "--json")
    assert checked.returncode == 0, checked.stderr
    found = {item["kind"]: item["tensor"] for item in json.loads(checked.stdout)["findings"]}
    assert found["simulator only"] == "joints.pos" and found["needs an estimator"] == "joints.vel"
    exported = run("export", f"{FACTORIES}:robot_in_simulation", "-o", tmp_path / "policy.onnx", "--no-strict")
    assert "A robot cannot have joints.pos: only a simulator knows it." in exported.stdout


@pytest.mark.expensive
def test_check_converts_the_environment_unless_told_not_to() -> None:
    result = run("check", f"{FACTORIES}:robot_without_file_form")
    assert result.returncode == 1 and "no file form" in result.stdout
    result = run("check", f"{FACTORIES}:robot_without_file_form", "--no-lower")
    assert result.returncode == 0, result.stdout


def test_check_names_the_culprit_and_exits_with_one() -> None:
    result = run("check", f"{FACTORIES}:forgetful_robot")
    assert result.returncode == 1
    assert "unregistered input" in result.stdout and "env.vel" in result.stdout
    assert 'Input(name="vel", get_from_env_cb=lambda: env.vel)' in result.stdout
    document = json.loads(run("check", f"{FACTORIES}:forgetful_robot", "--json").stdout)
    assert not document["ok"] and document["findings"][0]["tensor"] == "env.vel"


@pytest.mark.expensive
def test_export_writes_a_file_that_verify_agrees_with(tmp_path: Path) -> None:
    target = tmp_path / "new" / "policy.onnx"
    command = ["export", f"{FACTORIES}:robot", "-o", target, "--target-onnxruntime", "1.20"]
    result = run_installed(*command, "--on-stop", "joint_targets=[1, 2, 3]", "--on-stop", "actions=zero")
    assert result.returncode == 0, result.stdout + result.stderr
    assert Controller.load(target).ports["joint_targets"].on_stop == (1.0, 2.0, 3.0)
    shown = run("inspect", target).stdout
    assert "on a stop zero" in " ".join(shown.split())
    changes = json.loads(run("diff", write(robot_file(), tmp_path), target, "--json").stdout)["interface"]
    assert {"what": "output joint_targets: on_stop", "old": None, "new": [1.0, 2.0, 3.0]} in changes
    assert "comparisons with the captured program and the live environment" in result.stdout
    assert Controller.load(target).contract.provenance.ir_version == 10
    verified = run("verify", target, f"{FACTORIES}:robot", "--steps", 40)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "agrees: the file behaves like the environment (560 comparisons over 40 policy steps)" in verified.stdout


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("zero", "takes OUTPUT=VALUE"),
        ("joint_targets=halt", "takes hold, zero, a number or a JSON list"),
        ("=zero", "takes OUTPUT=VALUE"),
    ],
)
def test_stop_values_that_cannot_be_read_are_refused(value: str, message: str) -> None:
    result = run("export", f"{FACTORIES}:robot", "--on-stop", value)
    assert result.returncode == 2 and message in " ".join(result.stderr.split())


@pytest.mark.expensive
def test_what_could_not_be_compared_is_incomplete_and_exits_with_three(tmp_path: Path) -> None:
    policy, page = tmp_path / "policy.onnx", tmp_path / "report.html"
    exported = run("export", f"{FACTORIES}:sampling_robot", "-o", policy, "--allow-random")
    assert exported.returncode == 3 and policy.is_file(), exported.stdout + exported.stderr
    assert "incomplete: " in exported.stdout and "not compared: actions" in exported.stdout
    random = Controller.load(policy).contract.random_outputs
    allowed = [word for name in random for word in ("--allow-uncompared", name)]
    assert run("export", f"{FACTORIES}:sampling_robot", "-o", policy, "--allow-random", *allowed).returncode == 0
    verified = run("verify", policy, f"{FACTORIES}:sampling_robot", "--steps", 5)
    assert verified.returncode == 3 and verified.stdout.startswith("incomplete: obs, actions, joint_targets")
    reported = run("report", policy, f"{FACTORIES}:sampling_robot", "-o", page, "--steps", 5)
    assert reported.returncode == 3 and reported.stdout.startswith("incomplete: obs, actions, joint_targets")
    assert "<title>incomplete: policy.onnx</title>" in page.read_text(encoding="utf-8")


def test_verify_takes_tolerances(tmp_path: Path) -> None:
    policy = tmp_path / "policy.onnx"
    assert run("export", f"{FACTORIES}:forgetful_robot", "-o", policy, "--no-strict").returncode == 0
    assert run("verify", policy, f"{FACTORIES}:forgetful_robot", "--steps", 5).returncode == 1
    assert run("verify", policy, f"{FACTORIES}:forgetful_robot", "--steps", 5, "--atol", 100).returncode == 0


@pytest.mark.expensive
def test_start_values_are_taken_from_a_reset_or_given_by_name(tmp_path: Path) -> None:
    def start(*options: str) -> list[float]:
        path = tmp_path / "policy.onnx"
        result = run("export", f"{FACTORIES}:moved_robot", "-o", path, *options)
        assert result.returncode == 0, result.stdout + result.stderr
        memories = {memory.name: memory.initial_value() for memory in Controller.load(path).contract.memories}
        return [round(float(value), 3) for value in memories["last"].reshape(-1)]

    assert start() == start("--initial-memory", "reset") == [0.0, 0.0, 0.0]
    assert start("--initial-memory", "found", "--no-strict") != [0.0, 0.0, 0.0]
    assert start("--initial-memory", "last=[[1, 2, 3]]") == [1.0, 2.0, 3.0]
    shown = run("inspect", tmp_path / "policy.onnx").stdout
    assert "memory last float32 [1, 3], starts from [1, 2, 3], registered" in shown
    refused = run("export", f"{FACTORIES}:moved_robot", "--initial-memory", "found")
    assert refused.returncode == 1 and "wrong start value" in refused.stdout
    for wrong in ("later", "last=[1", "=1"):
        result = run("export", f"{FACTORIES}:robot", "--initial-memory", wrong)
        assert result.returncode == 2 and "--initial-memory" in result.stderr


@pytest.mark.expensive
def test_export_refuses_a_forgotten_input_and_writes_nothing(tmp_path: Path) -> None:
    result = run("export", f"{FACTORIES}:forgetful_robot", "-o", tmp_path / "policy.onnx")
    assert result.returncode == 1
    assert "env.vel" in result.stdout and "--no-strict" in result.stdout
    assert not list(tmp_path.iterdir())
    lenient = run("export", f"{FACTORIES}:forgetful_robot", "-o", tmp_path / "policy.onnx", "--no-strict")
    assert lenient.returncode == 0, lenient.stdout + lenient.stderr
    differs = run("verify", tmp_path / "policy.onnx", f"{FACTORIES}:forgetful_robot", "--steps", 20)
    assert differs.returncode == 1
    assert "does NOT agree" in differs.stdout and "env.vel" in differs.stdout


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("robot", "Expected module:function, such as my_project.export:make, got 'robot'"),
        ("no_such_module:make", "Importing no_such_module raised ModuleNotFoundError"),
        ("missing.py:make", "Importing missing.py raised FileNotFoundError: file not found: missing.py"),
        (f"{FACTORIES}:leaving", "leaving() raised SystemExit"),
        (f"{FACTORIES}:fly", "expected a function"),
        (f"{FACTORIES}:nothing", "found int, which is not callable"),
        (f"{FACTORIES}:broken", "broken() raised RuntimeError: no simulator here"),
        (f"{FACTORIES}:only_an_environment", "must return (environment, actor)"),
    ],
)
def test_a_factory_that_is_none_is_refused(factory: str, message: str) -> None:
    for command in ("discover", "check", "export"):
        assert_fails(run(command, factory), message)


def test_what_users_print_does_not_get_into_json() -> None:
    result = run("check", f"{FACTORIES}:talkative_robot", "--json", "--steps", 3)
    assert json.loads(result.stdout)["ok"]
    assert "made" in result.stderr and "moving" in result.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_terminals_without_unicode_get_what_they_can_show(policy: Path, encoding: str) -> None:
    for command in (["inspect", policy], ["bench", policy, "--ticks", 40], ["verify", policy]):
        result = run(*command, encoding=encoding)
        assert result.returncode == 0, result.stderr


def test_an_export_into_a_folder_is_refused(tmp_path: Path) -> None:
    assert_fails(run("export", f"{FACTORIES}:robot", "-o", tmp_path), "is a folder. Pass the path of a file")


@pytest.mark.expensive
def test_a_factory_may_be_in_a_file_of_the_present_folder(tmp_path: Path) -> None:
    (tmp_path / "my_export.py").write_text("from tests.support.factories import robot as make\n")
    for name in ("my_export:make", "my_export.py:make", f"{tmp_path}/my_export.py:make"):
        result = run("check", name, "--steps", 2, folder=tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr


# -- verify, bench, diff, run ---------------------------------------------------------------------------------


def test_verify_without_an_environment_runs_the_trace(policy: Path) -> None:
    result = run_installed("verify", policy)
    assert result.returncode == 0
    assert "agrees: 12 ticks of the trace" in result.stdout


def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [
        line.partition("#")[0].strip()
        for line in readme.splitlines()
        if (line.startswith("exploy ") and ".onnx" in line) or line.startswith(("exploy check", "exploy discover"))
    ]
    commands = [part for line in lines for part in line.split(" && ")]
    named = {command.split()[1] for command in commands}
    assert named == {"discover", "check", "export", "verify", "inspect", "bench", "diff"}
    venv = VecNormalize(make_vec_env("Pendulum-v1", seed=0))
    PPO("MlpPolicy", venv, device="cpu", seed=0).save(tmp_path / "model.zip")
    venv.save(str(tmp_path / "vn.pkl"))
    for command in commands:
        words = command.replace("deployed.onnx", "policy.onnx").replace("examples/", f"{ROOT}/examples/").split()[1:]
        result = run(*words, folder=tmp_path)
        assert result.returncode == 0, command + result.stdout + result.stderr


def test_verify_of_another_environment_is_refused(tmp_path: Path) -> None:
    path = write(cart_pole_file(), tmp_path)
    assert_fails(run("verify", path, f"{FACTORIES}:robot"), "does not belong to this environment")


def test_nobody_is_blamed_where_the_reader_of_a_pipe_goes_away(policy: Path) -> None:
    for arguments in (f"verify {policy} {FACTORIES}:robot --steps 20", f"inspect {policy}", f"verify {policy}"):
        result = subprocess.run(
            ["sh", "-c", f"{EXPLOY} {arguments} | true"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert result.stderr == "", arguments


def test_bench_shows_percentiles_a_histogram_and_a_rate(policy: Path) -> None:
    result = run_installed("bench", policy, "--ticks", 400)
    assert result.returncode == 0, result.stderr
    for text in ("policy step", "sub-step", "p50", "p99.9", "worst", "█", " Hz on this machine"):
        assert text in result.stdout
    document = json.loads(run("bench", policy, "--ticks", 400, "--json", "--hz", 2000, "--threads", 2).stdout)
    assert document["policy_step"]["ticks"] == 100 and document["sub_step"]["ticks"] == 300
    assert 0 < document["policy_step"]["p50"] <= document["policy_step"]["worst"]
    assert_fails(run("bench", policy, "--hz", -1), "positive number of ticks")


@pytest.mark.expensive
def test_diff_of_another_policy_with_the_same_interface(policy: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    assert run("export", f"{FACTORIES}:other_robot", "-o", other).returncode == 0
    result = run("diff", policy, other)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "The interface is the same" in result.stdout
    assert "On the trace of the old file, outputs differ by at most: actions 0." in result.stdout
    document = json.loads(run("diff", policy, other, "--json").stdout)
    assert document["interface"] == []
    assert document["behaviour"]["trace of the new file"]["actions"] > 0.01


def test_diff_of_another_interface_exits_with_one(policy: Path, tmp_path: Path) -> None:
    other = write(cart_pole_file(), tmp_path, "other.onnx")
    result = run_installed("diff", policy, other)
    assert result.returncode == 1
    assert "The interface differs" in result.stdout and "input joints.pos" in result.stdout
    assert "not comparable" in result.stdout


def test_diff_tells_where_a_robot_has_its_inputs_from(policy: Path, tmp_path: Path) -> None:
    other = write(file_of_robot_in_simulation(), tmp_path, "other.onnx")
    changes = json.loads(run("diff", policy, other, "--json").stdout)["interface"]
    assert changes == [
        {"what": "input joints.pos: source", "old": None, "new": "simulator"},
        {"what": "input joints.vel: source", "old": None, "new": "estimated"},
    ]


def test_run_replays_a_log(policy: Path, tmp_path: Path) -> None:
    controller = Controller.load(policy)
    with Recorder(tmp_path / "run.mcap", controller):
        for tick in range(20):
            controller.step(robot_inputs(tick))
    result = run_installed("run", policy, "--replay", tmp_path / "run.mcap")
    assert result.returncode == 0, result.stderr
    assert "20 ticks replayed: agrees" in result.stdout
    assert_fails(run("run", policy, "--replay", tmp_path / "missing.mcap"), "missing.mcap not found")
    other = write(cart_pole_file(), tmp_path, "other.onnx")
    assert_fails(run("run", other, "--replay", tmp_path / "run.mcap"), "inputs of the log do not match the file")


def test_run_exits_with_one_where_outputs_differ(policy: Path, tmp_path: Path) -> None:
    controller = Controller.load(policy)
    with Recorder(tmp_path / "run.npz", controller):
        controller.step(robot_inputs())
    with np.load(tmp_path / "run.npz") as arrays:
        changed: dict[str, Any] = {name: np.array(array) for name, array in arrays.items()}
    changed["outputs/actions"] += 1.0
    np.savez(tmp_path / "changed.npz", **changed)
    result = run("run", policy, "--replay", tmp_path / "changed.npz")
    assert result.returncode == 1
    assert "DIFFERS" in result.stdout and "actions: worst error 1" in result.stdout


# -- view, report, demo ---------------------------------------------------------------------------------------


def test_view_serves_the_graph_until_it_is_interrupted(policy: Path) -> None:
    process = subprocess.Popen(
        [str(EXPLOY), "view", str(policy), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs ignore SIGINT
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        address = next(
            line.split(" at ")[1].split(";")[0] for line in lines if line.startswith("Serving") and " at " in line
        )
        with urllib.request.urlopen(address, timeout=10) as page:
            assert b"Netron" in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()


def test_report_writes_a_page(policy: Path, tmp_path: Path) -> None:
    result = run_installed("report", policy, "-o", tmp_path / "report.html")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "agrees: the file behaves like the torch program" in result.stdout
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.expensive
def test_report_of_a_file_that_differs_exits_with_one(tmp_path: Path) -> None:
    policy, page = tmp_path / "policy.onnx", tmp_path / "report.html"
    assert run("export", f"{FACTORIES}:forgetful_robot", "-o", policy, "--no-strict").returncode == 0
    result = run("report", policy, f"{FACTORIES}:forgetful_robot", "-o", page, "--steps", 30)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "differs: the file does not agree with the environment" in result.stdout
    text = page.read_text(encoding="utf-8")
    assert "unregistered input" in text and "env.vel" in text


def test_report_where_nothing_can_be_written(policy: Path, tmp_path: Path) -> None:
    assert_fails(run("report", policy, "-o", policy / "report.html"), "Cannot write")
    assert_fails(run("report", policy, "-o", policy), "is the policy file")
    assert policy.read_bytes() == robot_file()
    for target in (tmp_path, "", "/dev/full"):
        assert_fails(run("report", policy, "-o", target), "it is not a file")


def test_a_link_stays_a_link(policy: Path, tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    assert run("report", policy, "-o", tmp_path / "link.html").returncode == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_demo_tells_the_whole_story(tmp_path: Path) -> None:
    result = run_installed("demo", tmp_path / "out")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    for text in ("500 steps against the environment", "agrees", "balanced", "policy.onnx", "report.html"):
        assert text in result.stdout
    assert (tmp_path / "out" / "policy.onnx").is_file() and (tmp_path / "out" / "report.html").is_file()
