"""Whether a robot measures, estimates or cannot have what a simulator gives, by the kind of data that a name tells."""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from exploy.contract import InputSource
from exploy.environment.components import Input, Output
from exploy.simulators.manager_based.interface_names import name_part
from exploy.simulators.manager_based.robot_ports import RobotPort

_WORD = r"[a-zA-Z0-9_]+"
_ORIENTATION = r"(w_Q_b|quat_xyzw|quat_w)"
_OF_BASES = {  # of the base body of a robot, where its IMU is
    rf"(?:bodies\.)?{{base}}\.{_ORIENTATION}": InputSource.MEASURED,
    r"{base}\.ang_vel_b_rt_w_in_b": InputSource.MEASURED,
}
_OF_JOINTS = {
    r"joints\.(pos|vel)": InputSource.MEASURED,
}
_OF_SENSORS = {  # the first that fits
    rf"imu\.{_WORD}\.(ang_vel_b_rt_w_in_b|projected_gravity_b|lin_acc_.*)": InputSource.MEASURED,
    rf"imu\.{_WORD}\.{_ORIENTATION}": InputSource.MEASURED,
    rf"imu\.{_WORD}\..*": InputSource.ESTIMATED,  # velocities, positions, angular accelerations
    rf"ray_caster\.{_WORD}\.(frame_)?(pos|quat)_w": InputSource.ESTIMATED,  # of the sensor itself
    rf"ray_caster\.{_WORD}\..*": InputSource.SIMULATOR,
    rf"contact\.{_WORD}\.(found|(current|last)_(air|contact)_time)": InputSource.ESTIMATED,
    rf"contact\.{_WORD}\.(pos|quat)_w": InputSource.ESTIMATED,  # of the sensor itself
    rf"contact\.{_WORD}\..*": InputSource.SIMULATOR,
    rf"({_WORD}_)?camera\.{_WORD}\.(rgba?|depth|distance_to_image_plane|distance_to_camera)": InputSource.MEASURED,
    rf"({_WORD}_)?camera\.{_WORD}\..*segmentation.*": InputSource.ESTIMATED,
    rf"frame_transformer\.{_WORD}\..*": InputSource.ESTIMATED,
}


def with_sources(ports: Iterable[RobotPort], base_names: Mapping[str, str]) -> list[RobotPort]:
    """The ports, of which those Inputs have a source whose kind is known. What their own metadata say stays.

    Args:
        ports: All ports of a simulator. Objects that have Outputs are robots; what is told of others, a robot must see.
        base_names: The name of the base body of each robot.
    """
    offered = list(ports)
    robots = {port.name.split(".")[2] for port in offered if port.kind is Output and port.name.count(".") >= 2}
    bases = {name: name_part(base_names.get(name, "")) for name in robots}
    return [_told(port, bases) if port.kind is Input else port for port in offered]


def source_of(name: str, bases: Mapping[str, str]) -> str | None:
    """Where a robot has the input of a name from; None if its kind is not known, as for commands.

    Args:
        name: The name of the port.
        bases: The name of the base body of each robot, as a part of the names of ports.
    """
    first, _, rest = name.partition(".")
    if first == "sensor":
        return _first_that_fits(_OF_SENSORS, rest)
    if first != "obj":
        return None
    owner, _, data = rest.partition(".")
    if owner not in bases:
        return InputSource.ESTIMATED
    base = re.escape(bases[owner])
    measured = _OF_JOINTS | {pattern.format(base=base): source for pattern, source in _OF_BASES.items()}
    return _first_that_fits(measured, data) or InputSource.ESTIMATED


def _told(port: RobotPort, bases: Mapping[str, str]) -> RobotPort:
    metadata = port.metadata or {}
    source = source_of(port.name, bases)
    if source is None or "source" in metadata:
        return port
    return dataclasses.replace(port, metadata={**metadata, "source": source})


def _first_that_fits(table: Mapping[str, str], text: str) -> str | None:
    return next((source for pattern, source in table.items() if re.fullmatch(pattern, text)), None)
