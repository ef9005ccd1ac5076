"""The sensors of mjlab: IMUs, height scans, contacts, cameras."""

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

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


def sensor_ports(env: Any) -> Iterator[RobotPort]:
    """All data of all sensors, in names of their own, and those that robots know."""
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
    yield from _height_scans(env)


def _plain(name: str, sensor: Any, model: Any, taken: set[str]) -> Iterator[RobotPort]:
    """A sensor of MuJoCo; those that IMUs have are called after the site that they are at."""
    index = model.sensor(sensor._name).id
    kind, metadata = _OF_IMUS.get(int(model.sensor_type[index]), ("", {}))
    is_at_site = int(model.sensor_objtype[index]) == _SITE
    has_reference = int(model.sensor_reftype[index]) != _UNKNOWN_OBJECT
    port = f"sensor.{name_part(name)}"
    if kind and is_at_site and not has_reference:
        site = model.site(int(model.sensor_objid[index])).name.split("/")[-1]
        offered = f"sensor.imu.{name_part(site)}.{kind}"
        port = offered if offered not in taken else f"sensor.imu.{name_part(name)}.{kind}"
        metadata = {**metadata, "frame": site if kind != "w_Q_b" else "world"}
    yield RobotPort(Input, port, fetch=lambda: sensor.data, metadata=metadata)


def _fields(name: str, sensor: Any) -> Iterator[RobotPort]:
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(sensor).__name__).lower().removesuffix("_sensor")
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


def _height_scans(env: Any) -> Iterator[RobotPort]:
    """Heights of sensors above the ground, where an observation is computed by mjlab's own function for it."""
    module = importlib.import_module("mjlab.envs.mdp.observations")
    seen: set[str] = set()
    for configurations in env.observation_manager._group_obs_term_cfgs.values():
        for term in configurations:
            name = term.params.get("sensor_name", "")
            if term.func is not module.height_scan or name in seen or term.params.get("offset", 0.0):
                continue
            seen.add(name)
            arguments = [env, name, *[term.params[key] for key in ("offset", "miss_value") if key in term.params]]
            group = f"sensor.ray_caster.{name_part(name)}"
            yield RobotPort(
                Input,
                f"{group}.height",
                call=(module, "height_scan", *arguments),
                metadata={"unit": "m"},
                group=group,
                group_metadata=_pattern(env.scene[name]),
            )


def _pattern(sensor: Any) -> dict[str, Any]:
    """Where the rays of a sensor begin, relative to its frame; `points` has x and y of each element, in their order."""
    pattern, frame = sensor.cfg.pattern, sensor.cfg.frame
    frames = frame if isinstance(frame, tuple | list) else (frame,)
    kind = type(pattern).__name__.removesuffix("PatternCfg")
    size = getattr(pattern, "size", (None, None))
    return {
        "pattern_type": re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower(),
        "articulation_name": name_part(frames[0].entity or ""),
        "frame_name": frames[0].name,
        "offset_x": 0.0,
        "offset_y": 0.0,
        "resolution": getattr(pattern, "resolution", None),
        "size_x": size[0],
        "size_y": size[1],
        "points": sensor._local_offsets[:, :2].double().tolist(),
    }
