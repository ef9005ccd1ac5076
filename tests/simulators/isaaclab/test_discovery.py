"""What a discovery finds in Isaac Lab's tasks: by its table the ports of robots, without it tensors by their paths."""

from pathlib import Path
from typing import Any

import pytest

import exploy
from tests.support.isaaclab_exports import CART_POLE, FLAT, ROUGH, TORCH_MOTORS, exported_task, learned_motors
from tests.support.simulator_discoveries import assert_discovered_as_by_hand, assert_discovered_by_paths, bare

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.expensive]  # warnings of Isaac Lab, Newton and Warp

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "cart-pole": (CART_POLE, {}),
    "flat": (FLAT, TORCH_MOTORS),
    "flat, with Newton's motors": (FLAT, {}),
    "flat, with DC motors": (FLAT, {**TORCH_MOTORS, "motors": True}),
    "flat, with a history": (FLAT, {**TORCH_MOTORS, "observations.policy.history_length": 3}),
}


@pytest.mark.parametrize("case", TASKS)
def test_the_table_gives_what_the_adapter_registers_and_paths_serve_as_well(case: str, tmp_path: Path) -> None:
    task, settings = TASKS[case]
    with exported_task(task, tmp_path, **settings) as exported:
        assert_discovered_as_by_hand(exported, tmp_path)
        assert_discovered_by_paths(exported[0], exported[1], tmp_path)


def test_the_state_of_learned_motors_is_found(tmp_path: Path) -> None:
    settings = {**TORCH_MOTORS, "motors": True, "scene.robot.actuators": learned_motors(tmp_path)}
    with exported_task(FLAT, tmp_path, **settings) as exported:
        assert_discovered_as_by_hand(exported, tmp_path)
        assert_discovered_by_paths(exported[0], exported[1], tmp_path)


def test_heights_and_hits_of_rays_are_a_choice(tmp_path: Path) -> None:
    with exported_task(ROUGH, tmp_path, **TORCH_MOTORS) as exported:
        env, actor, _ = exported
        assert_discovered_as_by_hand(exported, tmp_path)
        (choice,) = [item for item in exploy.discover(bare(env), actor).found if item.instead]
        assert choice.name == "sensor.ray_caster.height_scanner.height"
        assert "ray_hits_w" in choice.instead


def test_hits_of_rays_without_a_table_are_a_problem_for_no_attribute_holds_their_tensor(tmp_path: Path) -> None:
    with exported_task(ROUGH, tmp_path, **TORCH_MOTORS) as (env, actor, _):
        found = exploy.discover(bare(env, is_nameless=True), actor)
        assert any("no attribute holds it" in item.suggestion for item in found.problems), str(found)
