"""Objects that stand for parts of an environment of Isaac Lab that cannot be made here, such as cups with particles.

Their data are the library's own arrays, which share their memory with torch. Shapes are given by the name of an
attribute. An attribute that the library's class of data lacks does not exist here either.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import warp as wp
from isaaclab.assets.articulation.base_articulation_data import BaseArticulationData
from isaaclab.assets.cable_object.base_cable_object_data import BaseCableObjectData
from isaaclab.assets.deformable_object.base_deformable_object_data import BaseDeformableObjectData
from isaaclab.assets.rigid_object.base_rigid_object_data import BaseRigidObjectData
from isaaclab.sensors.contact_sensor.base_contact_sensor_data import BaseContactSensorData
from isaaclab.sensors.frame_transformer.base_frame_transformer_data import BaseFrameTransformerData
from isaaclab.sensors.imu.base_imu_data import BaseImuData
from isaaclab.sensors.joint_wrench.base_joint_wrench_sensor_data import BaseJointWrenchSensorData
from isaaclab.sensors.pva.base_pva_data import BasePvaData
from isaaclab.utils.warp.proxy_array import ProxyArray

ROBOTS, JOINTS, BODIES, PARTICLES, SIZE = 2, 60, 6, 20, 8
OPEN_GRIPPER = 0.04
_EACH = (ROBOTS,)

_ARRAYS: dict[str, tuple[int, ...]] = {
    "FORWARD_VEC_B": (3,),
    "GRAVITY_VEC_W": (3,),
    "ang_vel_b": (3,),
    "applied_effort": (JOINTS,),
    "body_ang_vel_w": (BODIES, 3),
    "body_lin_vel_w": (BODIES, 3),
    "body_link_pos_w": (BODIES, 3),
    "body_link_pose_w": (BODIES, 7),
    "body_link_quat_w": (BODIES, 4),
    "body_link_vel_w": (BODIES, 6),
    "body_pos_w": (BODIES, 3),
    "body_pose_w": (BODIES, 7),
    "body_quat_w": (BODIES, 4),
    "body_vel_w": (BODIES, 6),
    "default_joint_pos": (JOINTS,),
    "default_joint_vel": (JOINTS,),
    "force": (BODIES, 3),
    "joint_pos": (JOINTS,),
    "joint_vel": (JOINTS,),
    "lin_acc_b": (3,),
    "net_normal_forces_w": (2, 3),
    "nodal_pos_w": (PARTICLES, 3),
    "normal_force_matrix_w": (1, 1, 3),
    "particle_vel_w": (PARTICLES, 3),
    "position": (JOINTS,),
    "projected_gravity_b": (3,),
    "quat_w": (4,),
    "root_link_pos_w": (3,),
    "root_link_quat_w": (4,),
    "root_link_vel_w": (6,),
    "root_pos_w": (3,),
    "root_quat_w": (4,),
    "segment_pose_w": (5, 7),
    "target_pos_w": (2, 3),
    "target_quat_w": (2, 4),
    "torque": (BODIES, 3),
}
_CLASSES: dict[str, Any] = {
    "robot": BaseArticulationData,
    "cabinet": BaseArticulationData,
    "ee_frame": BaseFrameTransformerData,
    "cabinet_frame": BaseFrameTransformerData,
    "object": BaseRigidObjectData,
    "mug": BaseRigidObjectData,
    "cube_1": BaseRigidObjectData,
    "cube_2": BaseRigidObjectData,
    "cube_3": BaseRigidObjectData,
    "cable": BaseCableObjectData,
    "deformable": BaseDeformableObjectData,
    "imu": BaseImuData,
    "pva": BasePvaData,
    "wrench": BaseJointWrenchSensorData,
    "left_tip": BaseContactSensorData,
    "right_tip": BaseContactSensorData,
}


class Light:
    """An object with the attributes that are given; other ones do not exist."""

    def __init__(self, **attributes: Any):
        vars(self).update(attributes)


class LightData:
    """The data of an entity: arrays by name, made when they are first asked for."""

    def __init__(self, kind: Any, **others: Any):
        self._kind = kind
        vars(self).update(others)

    def __getattr__(self, name: str) -> ProxyArray:
        if name.startswith("_") or (self._kind is not None and not hasattr(self._kind, name)):
            raise AttributeError(f"{self._kind} has no {name}")
        if name not in _ARRAYS:
            raise LookupError(f"say of which shape the array {name} is")
        made = ProxyArray(wp.from_torch(normal(*_ARRAYS[name])))
        vars(self)[name] = made
        return made


class LightScene(Mapping[str, Any]):
    """A scene: entities by name."""

    def __init__(self) -> None:
        self.env_origins = normal(3)
        self.sensors = self
        self._entities = {name: _entity(kind) for name, kind in _CLASSES.items()}
        output = {"distance_to_camera": ProxyArray(wp.from_torch(normal(SIZE, SIZE, 1).abs() + 1))}
        self._entities["camera"] = Light(
            data=Light(output=output, intrinsic_matrices=torch.eye(3).repeat(ROBOTS, 1, 1))
        )

    def __getitem__(self, name: str) -> Any:
        return self._entities[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entities)

    def __len__(self) -> int:
        return len(self._entities)


def _entity(kind: Any) -> Light:
    names = {"body_names": [f"body_{number}" for number in range(BODIES)]} if kind is BaseArticulationData else {}
    return Light(
        data=LightData(kind, **names),
        find_joints=lambda _: ([3, 5], ["joint_3", "joint_5"]),
        actuators=Light(applied_effort=_array("applied_effort"), target_command=Light(position=_array("position"))),
    )


def _array(name: str) -> ProxyArray:
    return ProxyArray(wp.from_torch(normal(*_ARRAYS[name])))


def normal(*shape: int) -> torch.Tensor:
    """Random values for each robot."""
    return torch.randn(*_EACH, *shape)


def light_environment() -> Any:
    """An environment with all that functions of tasks read."""
    scene = LightScene()
    poses = {name: pose() for name in ("tcp_pose_e", "cup_pose_e", "target_pose_e")}
    masks = [torch.rand(ROBOTS, PARTICLES) > 0.5 for _ in range(3)]
    return Light(
        num_envs=ROBOTS,
        device="cpu",
        step_dt=0.02,
        scene=scene,
        cfg=Light(
            gripper_joint_names=["finger_.*"],
            gripper_open_val=OPEN_GRIPPER,
            gripper_threshold=1.0,
            success_dwell_time_s=0.5,
            terminations=Light(lost_grasp=Light(params={"dwell_time_s": 0.3})),
        ),
        max_episode_length=200,
        max_episode_length_s=4.0,
        episode_length_buf=torch.arange(ROBOTS) * 50,
        rigid_objects_in_focus=[[0, 1, 2] for _ in range(ROBOTS)],
        action_manager=Light(get_term=_returning(_action_term())),
        command_manager=Light(get_term=_returning(_command_term()), get_command=_returning(normal(7))),
        pour_target_frac=normal(),
        particle_pos_e=_returning(normal(PARTICLES, 3)),
        policy_observation=_returning(normal(5)),
        heightmap_observation=_returning(normal(2, SIZE, SIZE)),
        critic_observation=_returning(normal(9)),
        _desired_grasp_tcp_quat_c=quaternion(),
        _finger_joint_ids=[3, 5],
        _lost_grasp_dwell_count=torch.arange(ROBOTS) * 7,
        _media=Light(data=LightData(None)),
        _num_particles=PARTICLES,
        _particle_region_masks=_returning(masks),
        _robot=scene["robot"],
        _shadow_hand_camera_embeddings=normal(27),
        _source_cup=_entity(BaseRigidObjectData),
        _success_dwell_count=torch.arange(ROBOTS) * 11,
        **{name: _returning(value) for name, value in poses.items()},
    )


def _action_term() -> Light:
    return Light(
        processed_actions=normal(JOINTS),
        prev_commands=normal(4),
        commanded_position=normal(2),
        contact_deflection=normal(2),
    )


def _command_term() -> Light:
    slots = torch.tensor([[-1, 0, 3, 4], [1, 2, -1, 4]])
    return Light(quat_command_w=quaternion(), target=slots, typed=slots.clone(), num_keys=5)


def quaternion() -> torch.Tensor:
    """A random orientation for each robot."""
    return torch.nn.functional.normalize(normal(4), dim=-1)


def pose() -> torch.Tensor:
    """A random pose for each robot."""
    return torch.cat([normal(3), quaternion()], -1)


def _returning(value: Any) -> Callable[..., Any]:
    return lambda *_: value
