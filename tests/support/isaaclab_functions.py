"""The functions of Isaac Lab, and how to call them: in a real task, or in an environment of the library's arrays."""

import functools
import importlib
import importlib.util
import itertools
import sys
from pathlib import Path
from typing import Any

import torch
from isaaclab.managers import SceneEntityCfg
from isaaclab_tasks.contrib.multitask_manipulation.selection_utils import SceneEntitySelectionCfg

from tests.support.function_runs import Call, tensors_read
from tests.support.isaaclab_tasks import make_rough_anymal
from tests.support.library_functions import Function, Values, calls_of, functions_of, modules_named, parameter_values
from tests.support.light_environments import JOINTS, OPEN_GRIPPER, ROBOTS, Light, light_environment
from tests.support.math_arguments import ARGUMENTS, normal, quaternion

_PACKAGES = ("isaaclab", "isaaclab_contrib", "isaaclab_experimental", "isaaclab_tasks", "isaaclab_tasks_experimental")
_OLD_MATH = "isaaclab-2.3/isaaclab/source/isaaclab/isaaclab/utils/math.py"

# Modules whose functions read what ANYmal on rough terrain has; but not what these functions read.
_OF_ANYMAL = ("isaaclab.envs.mdp", "core.locomotion", "core.fourbar_pole", "contrib.dr_legs")
_NOT_OF_ANYMAL = ("pva_", "imu_", "_read_camera_output", "body_incoming_wrench")


def _selection(name: str, instances: tuple[int, ...] = tuple(range(ROBOTS))) -> SceneEntitySelectionCfg:
    cfg = SceneEntitySelectionCfg(name, body_ids=[1])
    cfg.env_ids = torch.arange(ROBOTS)
    cfg.instance_ids = torch.tensor(instances)
    return cfg


_PARAMETERS: dict[str, Any] = {
    "asset_cfg": SceneEntityCfg("robot"),
    "cabinet_cfg": _selection("cabinet"),
    "command_name": "base_velocity",
    "contact_sensor_names": ["left_tip", "right_tip"],
    "convert_perspective_to_orthogonal": Values((False, True)),
    "data_type": "distance_to_camera",
    "diff_threshold": 3.0,
    "ee_frame_cfg": SceneEntityCfg("ee_frame"),
    "height_threshold": 1.0,
    "joint_names": ["joint_.*"],
    "left_eef_link_name": "body_1",
    "link_name": "body_2",
    "lower_object_cfg": SceneEntityCfg("cube_1"),
    "num_harmonics": 3,
    "object_cfg": SceneEntityCfg("object"),
    "right_eef_link_name": "body_3",
    "robot_cfg": SceneEntityCfg("robot"),
    "target_asset_cfg": SceneEntityCfg("cabinet"),
    "target_pos": (100.0, 0.0, 0.0),
    "task_asset_cfgs": (_selection("object", (0, -1)), _selection("cabinet", (-1, 0))),
    "upper_object_cfg": SceneEntityCfg("cube_2"),
    "xy_threshold": 2.0,
    "_read_camera_output.sensor_cfg": SceneEntityCfg("camera"),
    "body_incoming_wrench.sensor_cfg": SceneEntityCfg("wrench"),
    "cabinet_ee_to_handle.robot_cfg": _selection("robot"),
    "height_scan.sensor_cfg": SceneEntityCfg("height_scanner"),
    "imu_ang_vel.asset_cfg": SceneEntityCfg("imu"),
    "imu_lin_acc.asset_cfg": SceneEntityCfg("imu"),
    "lift_object_pose_b.object_cfg": _selection("object"),
    "lift_object_pose_b.robot_cfg": _selection("robot"),
    "lift_object_position_b.object_cfg": _selection("object"),
    "lift_object_position_b.robot_cfg": _selection("robot"),
    "pva_orientation.asset_cfg": SceneEntityCfg("pva"),
    "pva_projected_gravity.asset_cfg": SceneEntityCfg("pva"),
    "deformable_com_in_robot_root_frame.asset_cfg": SceneEntityCfg("deformable"),
    "cable_segment_positions_in_robot_root_frame.asset_cfg": SceneEntityCfg("cable"),
    "selected_joint_pos_rel.asset_cfg": _selection("robot"),
    "selected_joint_vel_rel.asset_cfg": _selection("robot"),
    "upper_body_last_action.asset_cfg": SceneEntityCfg("robot", joint_names=["joint_.*"]),
    "_masked_particle_moments.mask": torch.arange(ROBOTS * 20).view(ROBOTS, 20) % 3 > 0,
}
_ARGUMENTS = {
    **ARGUMENTS,
    "_canonical_pose.pose": lambda generator: torch.cat([normal(4, 3)(generator), quaternion(4)(generator)], -1),
    "compute_cube_keypoints.pose": lambda generator: torch.cat([normal(4, 3)(generator), quaternion(4)(generator)], -1),
    "_slots_onehot.slots": lambda generator: torch.randint(-1, 5, (3, 4), generator=generator),
    "num_keys": 5,
    "num_keypoints": 8,
    "compute_cube_keypoints.size": (0.06, 0.05, 0.04),
    "_cube_corner_offsets.size": (0.06, 0.05, 0.04),
    "_walk_target_offset.target_pos": (100.0, 0.0, 0.0),
    "build_bin_goal_mask.cfg": Light(
        heightmap_shape=(4, 6),
        heightmap_x_bounds=(-1.0, 1.0),
        heightmap_y_bounds=(-1.0, 1.0),
        bin_inner_x_bounds=(-0.5, 0.5),
        bin_inner_y_bounds=(-0.5, 0.5),
    ),
}


def _mostly_open(generator: torch.Generator) -> torch.Tensor:
    """Positions of joints: those of a gripper are compared with the value of an open one."""
    is_open = torch.rand(ROBOTS, JOINTS, generator=generator) < 0.8
    return torch.where(is_open, OPEN_GRIPPER, torch.randn(ROBOTS, JOINTS, generator=generator))


_DRAWS_OF_JOINTS = {"object_stacked": _mostly_open}


def functions() -> list[Function]:
    """All functions of the modules with observations and with mathematics, and those of the older mathematics."""
    packages = [importlib.import_module(name) for name in _PACKAGES]
    modules = [item for package in packages for item in modules_named(package, "mdp/observations.py", "utils/math.py")]
    return [function for module in [*modules, _old_mathematics()] for function in functions_of(module)]


def _old_mathematics() -> Any:
    """The module `isaaclab.utils.math` of Isaac Lab 2.3, which needs nothing else of it."""
    path = Path(sys.prefix) / _OLD_MATH
    spec = importlib.util.spec_from_file_location("isaaclab_2_3.utils.math", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@functools.cache
def _anymal() -> Any:
    env = make_rough_anymal(num_envs=ROBOTS)
    env.episode_length_buf[:] = torch.arange(ROBOTS) * 70
    return env


def close() -> None:
    """End the real task: a process can have one at a time."""
    if _anymal.cache_info().currsize:
        _anymal().close()
        _anymal.cache_clear()


@functools.cache
def _light() -> Any:
    return light_environment()


def calls(function: Function) -> list[Call]:
    """Calls of a function; raises LookupError if it is not known how to call it."""
    if not function.reads_environment:
        return calls_of(function, _ARGUMENTS)
    is_real = any(part in function.module for part in _OF_ANYMAL) and not function.name.startswith(_NOT_OF_ANYMAL)
    env = _anymal() if is_real else _light()
    table = {**_PARAMETERS, "env": env}
    names = [parameter.name for parameter in function.parameters]
    given = [parameter_values(function, parameter, table) for parameter in function.parameters]
    return [_call(function, dict(zip(names, choice, strict=True))) for choice in itertools.product(*given)]


def _call(function: Function, arguments: dict[str, Any]) -> Call:
    call = functools.partial(function.function, **arguments)
    said = [f"{name}={value}" for name, value in arguments.items() if isinstance(value, bool | str)]
    inputs = tensors_read(call)
    draw = _DRAWS_OF_JOINTS.get(function.name)
    draws = {name: draw for name, value in inputs.items() if draw is not None and value.shape == (ROBOTS, JOINTS)}
    return Call(f"{function.name}({', '.join(said)})", inputs, call, draws)
