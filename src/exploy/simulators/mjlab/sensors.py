"""The sensors of mjlab: IMUs, height scans, contacts, cameras."""

import dataclasses
import importlib
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch

from exploy.contract import InputSource
from exploy.environment.components import Input
from exploy.live.geometry import Geometry
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.robot_ports import RobotPort

_VELOCIMETER, _GYRO, _FRAME_QUATERNION = 2, 3, 27  # mujoco.mjtSensor
_UNKNOWN_OBJECT, _SITE = 0, 6  # mujoco.mjtObj
_OF_IMUS: dict[int, tuple[str, dict[str, Any]]] = {
    _VELOCIMETER: ("lin_vel_b_rt_w_in_b", {"unit": "m/s"}),
    _GYRO: ("ang_vel_b_rt_w_in_b", {"unit": "rad/s"}),
    _FRAME_QUATERNION: ("w_Q_b", {"names": ["w", "x", "y", "z"]}),
}
_SOURCES = {  # numbers of mujoco.mjtSensor; those that IMUs have are told by their names
    **dict.fromkeys((0, 1), InputSource.MEASURED),  # touch, accelerometer
    _VELOCIMETER: InputSource.ESTIMATED,
    **dict.fromkeys(range(3, 8), InputSource.MEASURED),  # gyro, force, torque, magnetometer, rangefinder
    **dict.fromkeys(range(9, 15), InputSource.MEASURED),  # positions and velocities of joints, tendons, actuators
    **dict.fromkeys(range(15, 18), InputSource.ESTIMATED),  # forces of actuators
    **dict.fromkeys((18, 19), InputSource.MEASURED),  # orientations and velocities of ball joints
    **dict.fromkeys(range(26, 38), InputSource.ESTIMATED),  # frames, and centres of mass of subtrees
    **dict.fromkeys((43, 44), InputSource.SIMULATOR),  # energies
    46: InputSource.MEASURED,  # tactile
}


def sensor_ports(env: Any, groups: Collection[str]) -> Iterator[RobotPort]:
    """All data of all sensors, and heights where observations of some groups are computed from them."""
    taken: set[str] = set()
    places: list[Geometry] = []
    for name, sensor in env.scene.sensors.items():
        is_plain = isinstance(sensor.data, torch.Tensor)
        for port in _plain(name, sensor, env.sim.mj_model, taken) if is_plain else _fields(name, sensor):
            assert port.fetch is not None
            place = Geometry.of(port.fetch())
            if not place.numel or any(place.overlaps(other) for other in places):
                continue  # such as a field that is a part of another one
            places.append(place)
            taken.add(port.name)
            yield port
    yield from _height_scans(env, groups)


def _plain(name: str, sensor: Any, model: Any, taken: set[str]) -> Iterator[RobotPort]:
    """A sensor of MuJoCo; those that IMUs have are called after the site that they are at."""
    index = model.sensor(sensor._name).id
    number = int(model.sensor_type[index])
    kind, metadata = _OF_IMUS.get(number, ("", {}))
    is_at_site = int(model.sensor_objtype[index]) == _SITE
    has_reference = int(model.sensor_reftype[index]) != _UNKNOWN_OBJECT
    port = f"sensor.{name_part(name)}"
    if kind and is_at_site and not has_reference:
        site = model.site(int(model.sensor_objid[index])).name.split("/")[-1]
        offered = f"sensor.imu.{name_part(site)}.{kind}"
        port = offered if offered not in taken else f"sensor.imu.{name_part(name)}.{kind}"
        metadata = {**metadata, "frame": site if kind != "w_Q_b" else "world"}
    elif number in _SOURCES:
        metadata = {**metadata, "source": _SOURCES[number]}
    yield RobotPort(Input, port, fetch=lambda: sensor.data, metadata=metadata)


def _fields(name: str, sensor: Any) -> Iterator[RobotPort]:
    kind = _snake_case(type(sensor).__name__).removesuffix("_sensor")
    kind = "ray_caster" if kind in ("ray_cast", "terrain_height") else kind
    for field in dataclasses.fields(sensor.data):
        if isinstance(getattr(sensor.data, field.name), torch.Tensor):
            port = f"sensor.{kind}.{name_part(name)}.{field.name}"
            yield RobotPort(Input, port, fetch=_field(sensor, field.name))


def _field(sensor: Any, name: str) -> Callable[[], torch.Tensor]:
    def fetch() -> torch.Tensor:
        value: torch.Tensor = getattr(sensor.data, name)
        return value

    return fetch


def _height_scans(env: Any, groups: Collection[str]) -> Iterator[RobotPort]:
    """Heights of sensors above the ground, where an observation is computed by mjlab's own function for it."""
    module = importlib.import_module("mjlab.envs.mdp.observations")
    seen: set[str] = set()
    for term in (term for group in groups for term in env.observation_manager._group_obs_term_cfgs[group]):
        name, offset = term.params.get("sensor_name", ""), term.params.get("offset", 0.0)
        if term.func is not module.height_scan or name in seen or offset:
            continue
        seen.add(name)
        group = f"sensor.ray_caster.{name_part(name)}"
        yield RobotPort(
            Input,
            f"{group}.height",
            call=(module, "height_scan", env, name, offset, term.params.get("miss_value")),
            metadata={"unit": "m"},
            group=group,
            group_metadata=_pattern(env.scene[name]),
            is_computed=True,
        )


def _pattern(sensor: Any) -> dict[str, Any]:
    """Where the rays of a sensor begin, relative to its frame; `points` has x and y of each element, in their order."""
    pattern, frame = sensor.cfg.pattern, sensor.cfg.frame
    frames = frame if isinstance(frame, tuple | list) else (frame,)
    kind = type(pattern).__name__.removesuffix("PatternCfg")
    grid = (
        {"resolution": pattern.resolution, "size_x": pattern.size[0], "size_y": pattern.size[1]}
        if kind == "Grid"
        else {}
    )
    return {
        "pattern_type": _snake_case(kind),
        "articulation_name": name_part(frames[0].entity or ""),
        "frame_name": frames[0].name,
        "alignment": sensor.cfg.ray_alignment,
        "offset_x": 0.0,
        "offset_y": 0.0,
        **grid,
        "points": sensor._local_offsets[:, :2].double().tolist(),
    }


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
