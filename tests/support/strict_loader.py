"""Reads a file as a strict controller of a robot would: by names and metadata alone, and anything amiss is an error."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

WORD = r"([a-zA-Z0-9_]+)"
Shape = tuple[int, ...]
OF_BODIES = "pos_b_rt_w_in_w|w_Q_b|lin_vel_b_rt_w_in_b|ang_vel_b_rt_w_in_b"
RAY_CASTER = {"pattern_type", "articulation_name", "offset_x", "offset_y", "resolution", "size_x", "size_y"}
COMMANDS = {"se2_velocity": 3, "se3_pose": 7}


class StrictLoader:
    """What a file says about itself.

    Attributes:
        unknown: The inputs and outputs that are not in the table of names.
    """

    def __init__(self, file: Path):
        model = onnx.load(file)
        self._metadata = {item.key: item.value for item in model.metadata_props}
        self._inputs, self._outputs = shapes(model.graph.input), shapes(model.graph.output)
        self._require_model_metadata()
        self.unknown = [name for name in self._inputs if not self._reads_input(name)]
        self.unknown += [name for name in self._outputs if not self._reads_output(name)]

    def described(self, name: str) -> Any:
        """The metadata of a group or a port."""
        return json.loads(self._metadata[name])

    def _require_model_metadata(self) -> None:
        assert isinstance(json.loads(self._metadata["exploy_version"]), str)
        rate, sim_dt = float(self._metadata["update_rate"]), float(self._metadata["sim_dt"])
        assert rate > 0 and abs(rate * sim_dt - 1.0) < 1e-9
        assert int(self._metadata["decimation"]) >= 1
        bases = self.described("base_names")
        assert bases and all(isinstance(name, str) and isinstance(base, str) for name, base in bases.items())
        assert all(isinstance(name, str) for name in self.described("obs_term_names"))

    def _reads_input(self, name: str) -> bool:
        readers: dict[str, Callable[..., None]] = {
            rf"obj\.{WORD}\.joints\.(pos|vel)": self._joints,
            rf"obj\.{WORD}\.(?!joints\.){WORD}\.({OF_BODIES})": self._body,
            rf"sensor\.imu\.{WORD}\.(lin_vel_b_rt_w_in_b|ang_vel_b_rt_w_in_b|w_Q_b)": self._imu,
            rf"sensor\.ray_caster\.{WORD}\.height": self._heights,
            rf"cmd\.(se2_velocity|se3_pose)\.{WORD}": self._command,
        }
        return self._read(name, readers)

    def _reads_output(self, name: str) -> bool:
        return self._read(name, {rf"output\.joint_targets\.{WORD}\.(pos|vel|effort)": self._targets})

    def _read(self, name: str, readers: dict[str, Callable[..., None]]) -> bool:
        for pattern, reader in readers.items():
            if match := re.fullmatch(pattern, name):
                reader(name, *match.groups())
                return True
        return False

    def _joints(self, name: str, robot: str, _: str) -> None:
        names = self.described(f"obj.{robot}.joints")["joint_names"]
        assert len(set(names)) == len(names) and self._inputs[name] == (1, len(names))

    def _body(self, name: str, robot: str, body: str, quantity: str) -> None:
        assert robot and body and self._inputs[name] == (1, 4 if quantity == "w_Q_b" else 3)

    def _imu(self, name: str, _: str, quantity: str) -> None:
        assert self._inputs[name] == (1, 4 if quantity == "w_Q_b" else 3)

    def _heights(self, name: str, sensor: str) -> None:
        pattern = self.described(f"sensor.ray_caster.{sensor}")
        assert pattern.keys() >= RAY_CASTER
        rows, columns = (round(pattern[size] / pattern["resolution"]) + 1 for size in ("size_x", "size_y"))
        count = rows * columns
        assert self._inputs[name] == (1, count) and pattern["articulation_name"] in self.described("base_names")

    def _command(self, name: str, kind: str, _: str) -> None:
        assert self._inputs[name] == (1, COMMANDS[kind])
        ranges = self.described(name)["ranges"]
        assert all(low <= high for low, high in ranges.values())
        assert kind != "se2_velocity" or list(ranges) == ["lin_vel_x", "lin_vel_y", "ang_vel_z"]

    def _targets(self, name: str, robot: str, _: str) -> None:
        group = self.described(f"output.joint_targets.{robot}")
        assert group["type"] == "joint_targets"
        count = len(group["names"])
        assert len(group["stiffness"]) == len(group["damping"]) == count
        for quantity in ("pos", "vel", "effort"):
            assert self._outputs[f"output.joint_targets.{robot}.{quantity}"] == (1, count)


def shapes(values: Any) -> dict[str, Shape]:
    """The shapes of the inputs or outputs that are neither memories nor made by the format itself."""
    own = re.compile(r"memory\..*|ctx\..*|obs|obs\..*|actions")
    return {
        item.name: tuple(axis.dim_value for axis in item.type.tensor_type.shape.dim)
        for item in values
        if not own.fullmatch(item.name)
    }
