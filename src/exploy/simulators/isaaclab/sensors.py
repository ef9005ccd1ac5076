"""The sensors of Isaac Lab: IMUs, height scans, contacts, cameras."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from exploy.environment.components import Input
from exploy.environment.substitutes import Substitute, substitute
from exploy.live.geometry import Geometry
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.robot_ports import RobotPort

_OF_IMUS: dict[str, tuple[str, dict[str, Any]]] = {  # fields of IMU and PVA sensors
    "lin_vel_b": ("lin_vel_b_rt_w_in_b", {"unit": "m/s"}),
    "ang_vel_b": ("ang_vel_b_rt_w_in_b", {"unit": "rad/s"}),
    "lin_acc_b": ("lin_acc_b", {"unit": "m/s^2"}),
    "projected_gravity_b": ("projected_gravity_b", {}),
}
_W_LAST: dict[str, Any] = {"names": ["x", "y", "z", "w"]}


def sensor_ports(scene: Any) -> Iterator[RobotPort]:
    """All data of all sensors."""
    for name, sensor in scene.sensors.items():
        if hasattr(sensor, "ray_starts"):
            yield _heights(name, sensor, scene)
        yield from _fields(name, sensor)


def heights(sensor: Any) -> torch.Tensor:
    """How far below the origin of a ray caster its rays hit the ground."""
    data = sensor.data
    found: torch.Tensor = data.pos_w.torch[:, 2].unsqueeze(1) - data.ray_hits_w.torch[..., 2]
    return found


def height_scan_substitute() -> Substitute:
    """A substitute for the observation of heights that takes them from what robots get."""
    return substitute(importlib.import_module("isaaclab.envs.mdp.observations").height_scan, height_scan)


def height_scan(env: Any, sensor_cfg: Any, offset: float = 0.5) -> torch.Tensor:
    """Isaac Lab's observation of heights: those below the origin of the sensor, less an offset."""
    return heights(env.scene.sensors[sensor_cfg.name]) - offset


def _heights(name: str, sensor: Any, scene: Any) -> RobotPort:
    group = f"sensor.ray_caster.{name_part(name)}"
    call = (sys.modules[__name__], heights.__name__, sensor)
    return RobotPort(
        Input, f"{group}.height", None, call, {"unit": "m"}, group, _pattern(sensor, scene), is_computed=True
    )


def _pattern(sensor: Any, scene: Any) -> dict[str, Any]:
    """Where the rays of a sensor begin, relative to its frame; `points` has x and y of each element, in their order."""
    cfg = sensor.cfg
    kind = type(cfg.pattern_cfg).__name__.removesuffix("PatternCfg")
    grid = {}
    if kind == "Grid":
        size_x, size_y = cfg.pattern_cfg.size
        grid = {"resolution": cfg.pattern_cfg.resolution, "size_x": size_x, "size_y": size_y}
    path, _, frame = cfg.prim_path.rpartition("/")
    owners = [name for name, asset in scene.articulations.items() if f"{path}/".startswith(f"{asset.cfg.prim_path}/")]
    return {
        "pattern_type": _snake_case(kind),
        "articulation_name": name_part(owners[0]) if owners else "",
        "frame_name": frame,
        "alignment": cfg.ray_alignment,
        "offset_x": float(cfg.offset.pos[0]),
        "offset_y": float(cfg.offset.pos[1]),
        **grid,
        "points": sensor.ray_starts.torch[0, :, :2].double().tolist(),
    }


def _fields(name: str, sensor: Any) -> Iterator[RobotPort]:
    """The data of a sensor, without those that are a part of others."""
    kind = _snake_case(type(sensor).__name__).removesuffix("_sensor")
    is_imu = kind in ("imu", "pva")
    places: list[Geometry] = []
    for field, fetch in [*_arrays(sensor), *_images(sensor)]:
        place = Geometry.of(fetch())
        if not place.numel or any(place.overlaps(other) for other in places):
            continue
        places.append(place)
        port, metadata = _OF_IMUS.get(field, (field, {})) if is_imu else (field, {})
        metadata = {
            **metadata,
            **(_W_LAST if "quat" in field else {}),
            **({"frame": name} if field in _OF_IMUS else {}),
        }
        prefix = f"sensor.{'imu' if is_imu else kind}.{name_part(name)}"
        yield RobotPort(Input, f"{prefix}.{name_part(port)}", fetch, metadata=metadata)


def _arrays(sensor: Any) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    """The arrays that the data of a sensor have, largest first: the others may be parts of these."""
    data = sensor.data
    names = [name.removeprefix("_") for name, value in vars(data).items() if type(value).__name__ == "array"]
    found = [(name, _array(sensor, name)) for name in names if isinstance(getattr(type(data), name, None), property)]
    return iter(sorted(found, key=lambda item: -item[1]().numel()))


def _images(sensor: Any) -> Iterator[tuple[str, Callable[[], torch.Tensor]]]:
    output = getattr(sensor.data, "output", None)
    for name, value in (output or {}).items():
        if isinstance(value, torch.Tensor) or hasattr(value, "torch"):
            yield name, _image(sensor, name)


def _array(sensor: Any, name: str) -> Callable[[], torch.Tensor]:
    def fetch() -> torch.Tensor:
        value: torch.Tensor = getattr(sensor.data, name).torch
        return value

    return fetch


def _image(sensor: Any, name: str) -> Callable[[], torch.Tensor]:
    def fetch() -> torch.Tensor:
        value = sensor.data.output[name]
        image: torch.Tensor = value if isinstance(value, torch.Tensor) else value.torch
        return image

    return fetch


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
