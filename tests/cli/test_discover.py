"""`exploy discover`: what it prints, writes and asks, and how it exits."""

import json
import runpy
from pathlib import Path

import pytest

import exploy
from exploy.runtime import Controller
from tests.support.bare_factories import slice_of_the_state
from tests.support.command_line import assert_fails, run, run_installed

BARE = "tests.support.bare_factories"
TORQUE = ("--output", "torque=env.torque")


def test_a_complete_discovery_is_printed_and_exits_with_zero() -> None:
    result = run_installed("discover", f"{BARE}:slice_of_the_state", *TORQUE)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("Found 1 input, 1 output in ") and "nothing is left open." in result.stdout
    assert "│ env.qpos[:, 7:9] │" in result.stdout
    assert "\ndef register(env: Any, actor: Any) -> None:\n" in result.stdout
    assert 'add(Input(name="qpos", get_from_env_cb=lambda: env.qpos[:, 7:9]))' in result.stdout


def test_what_nothing_has_moved_is_listed() -> None:
    shown = " ".join(run("discover", f"{BARE}:many_offsets", *TORQUE).stdout.split())
    assert "Constants, which nothing has moved: env.offsets[0], env.offsets[1], " in shown
    assert "env.offsets[11] and 2 more." in shown and "env.offsets[12]" not in shown


def test_what_is_left_open_is_asked_and_exits_with_one() -> None:
    result = run("discover", f"{BARE}:command_of_an_episode", *TORQUE)
    assert result.returncode == 1
    assert "1 to decide." in result.stdout and "│ env.command │" in result.stdout
    assert '# add(Input(name="command", get_from_env_cb=lambda: env.command))' in result.stdout
    assert "1 to decide." in run("discover", f"{BARE}:slice_of_the_state").stdout  # which tensor the robot gets


@pytest.mark.parametrize(("answer", "code"), [("input", 'add(Input(name="kp"'), ("constant", 'add_constant("kp"')])
def test_an_answer_closes_a_question(answer: str, code: str) -> None:
    result = run("discover", f"{BARE}:random_gains", *TORQUE, "--decide", f"env.kp={answer}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert code in result.stdout and "as decided" in result.stdout


def test_the_written_module_gives_an_environment_that_exports(tmp_path: Path) -> None:
    target = tmp_path / "new" / "registration.py"
    result = run("discover", f"{BARE}:slice_of_the_state", *TORQUE, "--write", target)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.rstrip().endswith(str(target))
    assert target.read_text(encoding="utf-8") in result.stdout
    env, actor = slice_of_the_state()
    runpy.run_path(str(target))["register"](env, actor)
    exported = exploy.export(env, actor, tmp_path / "policy.onnx")
    assert exported.diagnosis is not None and exported.diagnosis.ok
    controller = Controller.load(tmp_path / "policy.onnx")
    assert controller.inputs["qpos"].shape == (1, 2) and "torque" in controller.outputs


def test_an_existing_module_is_replaced_also_if_something_is_left_open(tmp_path: Path) -> None:
    target = tmp_path / "registration.py"
    target.write_text("old")
    assert run("discover", f"{BARE}:command_of_an_episode", *TORQUE, "--write", target).returncode == 1
    assert "# To decide: env.command" in target.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["registration.py"]


def test_json_has_everything(tmp_path: Path) -> None:
    target = tmp_path / "registration.py"
    result = run("discover", f"{BARE}:command_of_an_episode", *TORQUE, "--json", "--write", target)
    document = json.loads(result.stdout)
    assert result.returncode == 1 and not document["ok"] and not document["problems"]
    assert document["resets"] == 4 and document["steps"] > 20
    assert {(item["kind"], item["path"]) for item in document["found"]} == {
        ("input", "env.pos"),
        ("output", "env.torque"),
    }
    [question] = document["questions"]
    assert question["path"] == "env.command" and set(question["options"]) == {"input", "constant"}
    assert document["constants"] == [] and document["code"] == target.read_text(encoding="utf-8")


def test_steps_and_the_wait_for_a_reset_are_options() -> None:
    def watched(*options: object) -> tuple[int, int]:
        document = json.loads(run("discover", f"{BARE}:slice_of_the_state", *TORQUE, "--json", *options).stdout)
        return document["steps"], document["resets"]

    assert watched("--steps", 5, "--reset-within", 40) == (40, 1)
    assert run("discover", f"{BARE}:slice_of_the_state", "--steps", 0).returncode == 2


def test_what_the_factory_has_registered_stays() -> None:
    document = json.loads(run("discover", f"{BARE}:half_registered", "--json").stdout)
    assert document["ok"] and [item["path"] for item in document["found"]] == ["env.qpos[:, 7:9]"]


def test_a_fault_of_the_environment_is_a_problem() -> None:
    result = run("discover", f"{BARE}:immovable", *TORQUE)
    assert result.returncode == 1 and result.stderr == ""
    assert "cannot step" in result.stdout and "the simulator is gone" in result.stdout


def test_what_users_print_does_not_get_into_json() -> None:
    result = run("discover", f"{BARE}:talkative", *TORQUE, "--json")
    assert json.loads(result.stdout)["ok"] and "made" in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--output", "torque"),
        ("--output", "=env.torque"),
        ("--output", "torque="),
        (*TORQUE, *TORQUE),
        ("--decide", "env.kp"),
        ("--decide", "=input"),
        ("--decide", "env.kp="),
        ("--decide", "env.kp=input", "--decide", "env.kp=constant"),
    ],
)
def test_options_that_cannot_be_read_are_refused(options: tuple[str, ...]) -> None:
    result = run("discover", f"{BARE}:random_gains", *options)
    assert result.returncode == 2 and "discover [OPTIONS]" in result.stderr
    assert f"{options[0]} takes " in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--output", "torque=env.engine"), "Output 'torque': 'env.engine' raises AttributeError"),
        (("--output", "torque=env.decimation"), "must be a torch.Tensor, got int"),
        (("--decide", "env.kp=perhaps"), "must be one of input, constant, got 'perhaps'"),
        (("--decide", "env.kd=input"), "There is no question about env.kd"),
        (("--checkpoint", "model.pt"), "only for tasks of simulators"),
    ],
)
def test_what_does_not_fit_the_environment_is_one_line(options: tuple[str, ...], message: str) -> None:
    assert_fails(run("discover", f"{BARE}:random_gains", *options), message)


def test_code_cannot_be_written_to_a_folder(tmp_path: Path) -> None:
    assert_fails(run("discover", f"{BARE}:random_gains", "--write", tmp_path), "is a folder. Pass the path of a file")
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "registration.py"
    assert_fails(run("discover", f"{BARE}:slice_of_the_state", *TORQUE, "--write", target), "Cannot write")
