"""What the robots and objects of mjlab give and get: joints, frames, velocities, targets of actuators."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from exploy.environment.components import Input, Output
from exploy.simulators.manager_based import joints
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.robot_ports import RobotPort, live
from exploy.simulators.mjlab.mujoco_actuators import MujocoActuator, mujoco_actuator
from exploy.simulators.mjlab.site_poses import orientation_call

_SLIDE, _HINGE = 2, 3  # mujoco.mjtJoint

_WORLD = "world"
_QUATERNION = {"names": ["w", "x", "y", "z"], "frame": _WORLD}
_IN_ROOT = {  # properties of EntityData, in the frame of the root body
    "lin_vel_b_rt_w_in_b": ("root_link_lin_vel_b", "m/s"),
    "ang_vel_b_rt_w_in_b": ("root_link_ang_vel_b", "rad/s"),
}
_IN_WORLD = {
    "lin_vel_b_rt_w_in_w": ("root_link_lin_vel_w", "m/s"),
    "ang_vel_b_rt_w_in_w": ("root_link_ang_vel_w", "rad/s"),
}


def joint_ports(name: str, entity: Any, sim: Any) -> Iterator[RobotPort]:
    """Positions and velocities of the joints of an entity."""
    found = joints_of(entity, sim)
    group = f"obj.{name_part(name)}.joints"
    names = {"joint_names": list(entity.joint_names)}
    ranges = entity.data.default_joint_pos_limits[0].double().tolist()
    limits = joints.limits(ranges) if all(joint.slides is not None for joint in found) else {}
    for port, attribute, units, more in (
        ("pos", "joint_pos", ("m", "rad"), limits),
        ("vel", "joint_vel", ("m/s", "rad/s"), {}),
        ("acc", "joint_acc", ("m/s^2", "rad/s^2"), {}),
    ):
        metadata = {**joints.units(found, *units), **more}
        call = (entity.data, attribute)
        yield RobotPort(Input, f"{group}.{port}", None, call, metadata, group, names)


def frame_ports(name: str, entity: Any, sim: Any) -> Iterator[RobotPort]:
    """Poses of bodies and sites. Those of a base that is fixed to the world are constants."""
    indexing, prefix = entity.indexing, f"obj.{name_part(name)}"
    first = 1 if entity.is_fixed_base else 0
    bodies = list(zip(entity.body_names, indexing.body_ids.tolist(), strict=True))[first:]
    for body, index in bodies:
        base = f"{prefix}.{name_part(body)}"
        yield _state(f"{base}.pos_b_rt_w_in_w", sim, "xpos", index, {"unit": "m", "frame": _WORLD})
        yield _state(f"{base}.w_Q_b", sim, "xquat", index, _QUATERNION)
    taken = {body for body, _ in bodies}
    sites = zip(entity.site_names, indexing.site_ids.tolist(), strict=True)
    for number, (site, index) in enumerate(sites):
        base = f"{prefix}.{name_part(site if site not in taken else f'{site}_site')}"
        yield _state(f"{base}.pos_b_rt_w_in_w", sim, "site_xpos", index, {"unit": "m", "frame": _WORLD})
        yield RobotPort(Input, f"{base}.w_Q_b", None, orientation_call(entity.data, number), _QUATERNION)


def velocity_ports(name: str, entity: Any) -> Iterator[RobotPort]:
    """Velocities of the base, and of all bodies in the frame of the world."""
    if not entity.is_fixed_base:
        root = entity.body_names[0]
        base = f"obj.{name_part(name)}.{name_part(root)}"
        for properties, frame in ((_IN_ROOT, root), (_IN_WORLD, _WORLD)):
            for port, (attribute, unit) in properties.items():
                yield _read(f"{base}.{port}", entity, attribute, {"unit": unit, "frame": frame})
    if entity.num_bodies:
        base = f"obj.{name_part(name)}.bodies"
        yield _read(f"{base}.lin_vel_b_rt_w_in_w", entity, "body_link_lin_vel_w", {"unit": "m/s", "frame": _WORLD})
        yield _read(f"{base}.ang_vel_b_rt_w_in_w", entity, "body_link_ang_vel_w", {"unit": "rad/s", "frame": _WORLD})


def target_ports(name: str, entity: Any, sim: Any) -> Iterator[RobotPort]:
    """The targets of actuators: of joints with their gains, in the order of joints, of tendons and of sites."""
    of_joints = {port: live(entity.data, f"joint_{port}_target") for port in ("pos", "vel", "effort")}
    yield from joints.target_ports(name, joints_of(entity, sim), of_joints)
    prefix, data = f"output.{{}}_targets.{name_part(name)}", entity.data
    if entity.has_tendon_actuators:
        for port, on_stop in (("len", "hold"), ("vel", "zero"), ("effort", "zero")):
            metadata = {"names": list(entity.tendon_names), "on_stop": on_stop}
            fetch = live(data, f"tendon_{port}_target")
            yield RobotPort(Output, f"{prefix.format('tendon')}.{port}", fetch, metadata=metadata)
    if entity.has_site_actuators:
        metadata = {"names": list(entity.site_names), "on_stop": "zero"}
        fetch = live(data, "site_effort_target")
        yield RobotPort(Output, f"{prefix.format('site')}.effort", fetch, metadata=metadata)


def _state(name: str, sim: Any, field: str, index: int, metadata: dict[str, Any]) -> RobotPort:
    def fetch() -> torch.Tensor:
        value: torch.Tensor = getattr(sim.data, field)[:, index]
        return value

    return RobotPort(Input, name, fetch=fetch, metadata=metadata)


def _read(name: str, entity: Any, attribute: str, metadata: dict[str, Any]) -> RobotPort:
    return RobotPort(Input, name, call=(entity.data, attribute), metadata=metadata)


def joints_of(entity: Any, sim: Any) -> list[joints.Joint]:
    """The joints of an entity, with the gains and gears of their actuators."""
    gains, slides = _gains(entity, sim), {_SLIDE: True, _HINGE: False}
    return [
        joints.Joint(
            name,
            slides.get(int(sim.mj_model.jnt_type[index])),
            gains.get(name),
            _only([item.gear for item in _of_joint(entity, sim, name)]),
            _only([item.position_gear for item in _of_joint(entity, sim, name)]),
        )
        for name, index in zip(entity.joint_names, entity.indexing.joint_ids.tolist(), strict=True)
    ]


def _gains(entity: Any, sim: Any) -> dict[str, tuple[float, float]]:
    """Stiffness and damping of each joint that has actuators, as configured, not as events have changed them."""
    gains: dict[str, tuple[float, float]] = {}
    for group in entity.actuators:
        if str(getattr(group.transmission_type, "value", "")) != "joint":
            continue
        configured = float(getattr(group.cfg, "stiffness", 0.0)), float(getattr(group.cfg, "damping", 0.0))
        for joint in group.target_names:
            found = _of_joint(entity, sim, joint)
            stiffness, damping = sum(item.stiffness for item in found), sum(item.damping for item in found)
            is_of_mujoco = any(item.computes_force for item in found)
            gains[joint] = (stiffness, damping) if is_of_mujoco else configured
    return gains


def _of_joint(entity: Any, sim: Any, joint: str) -> list[MujocoActuator]:
    """The actuators of MuJoCo that mjlab drives a joint with; a model may have more, whose controls stay zero."""
    driven = [item for group in entity.actuators for item in group._mjs_actuators]
    return [mujoco_actuator(sim.mj_model, item.id) for item in driven if item.target.split("/")[-1] == joint]


def _only(gears: Sequence[float | None]) -> float:
    found = {gear for gear in gears if gear is not None}
    return found.pop() if len(found) == 1 else 1.0
