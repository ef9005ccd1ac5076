"""What a discovery finds in mjlab's tasks: by its table the ports of robots, without it tensors by their paths."""

from pathlib import Path

import pytest

import exploy
from tests.support.command_line import run
from tests.support.mjlab_exports import CART_POLE, G1, OTHERS, export_task, make_task
from tests.support.simulator_discoveries import assert_discovered_as_by_hand, assert_discovered_by_paths, bare
from tests.support.simulator_exports import Exported, assert_agrees

pytestmark = [
    pytest.mark.expensive,
    pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning"),
    pytest.mark.filterwarnings("ignore:MULTICCD is enabled:UserWarning"),  # of mujoco_warp, on rough terrain
]


@pytest.mark.parametrize("task", [CART_POLE, G1, *OTHERS])
def test_the_table_gives_what_the_adapter_registers(task: str, tmp_path: Path) -> None:
    assert_discovered_as_by_hand(export_task(task, tmp_path), tmp_path)


@pytest.mark.parametrize("task", [CART_POLE, G1, *OTHERS])
def test_without_a_table_tensors_are_found_by_their_paths(task: str, tmp_path: Path) -> None:
    assert_discovered_by_paths(*make_task(task, tmp_path), tmp_path)


def test_the_joints_of_the_g1_are_found_as_slices_of_the_state(g1: Exported, tmp_path: Path) -> None:
    found = assert_discovered_by_paths(g1[0], g1[1], tmp_path)
    paths = [item.path for item in found.found]
    for end in ("['qpos']._tensor[:, 7:36]", "['qvel']._tensor[:, 6:35]", "['xquat']._tensor[:, 2:3]"):
        assert any(path.endswith(end) for path in paths), paths


@pytest.mark.parametrize(
    ("task", "port", "others"),
    [
        ("Mjlab-Velocity-Rough-Unitree-G1", "sensor.ray_caster.terrain_scan.height", "terrain_scan.hit_pos_w"),
        ("Mjlab-Tracking-Flat-Unitree-G1", "cmd.time_step.motion", "cmd.reference.motion.command"),
    ],
)
def test_a_choice_is_told_and_both_lines_give_files_that_agree(
    task: str, port: str, others: str, tmp_path: Path
) -> None:
    made, actor = make_task(task, tmp_path)
    env = bare(made)
    found = exploy.discover(env, actor)
    (choice,) = [item for item in found.found if item.instead]
    assert choice.name == port and others in choice.instead
    assert f"# or instead: {choice.instead}" in found.code
    other = found.code.replace(f"    {choice.code}\n", "").replace("# or instead: ", "")
    scope: dict[str, object] = {}
    exec(other, scope)
    scope["register"](env, actor)  # type: ignore[operator]
    assert port not in {item.name for item in env.context_manager().get_input_components()}
    assert_agrees((env, actor, exploy.export(env, actor, tmp_path / "other.onnx", strict=False).path), 60)


def test_a_task_is_discovered_from_the_shell(tmp_path: Path) -> None:
    settings = ("--untrained", "--set", "episode_length_s=1.0", "--set", "seed=0")
    done = run("discover", f"mjlab:{CART_POLE}", *settings, "--write", tmp_path / "registration.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'env.add_ports("obj.cartpole.joints.pos")' in (tmp_path / "registration.py").read_text()
