"""What a robot can have is told by the kind of data, for all simulators with managers."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from exploy.contract import InputSource
from exploy.environment.components import Input, Memory, Output
from exploy.simulators.manager_based.input_sources import source_of, with_sources
from exploy.simulators.manager_based.robot_ports import RobotPort

PAGE = Path(__file__).parents[3] / "docs" / "simulators.md"
BASES = {"robot": "pelvis"}
SOURCES = {
    "obj.robot.joints.pos": InputSource.MEASURED,
    "obj.robot.joints.acc": InputSource.ESTIMATED,
    "obj.robot.pelvis.w_Q_b": InputSource.MEASURED,
    "obj.robot.bodies.pelvis.w_Q_b": InputSource.MEASURED,
    "obj.robot.pelvis.ang_vel_b_rt_w_in_b": InputSource.MEASURED,
    "obj.robot.pelvis.ang_vel_b_rt_w_in_w": InputSource.ESTIMATED,
    "obj.robot.pelvis.lin_vel_b_rt_w_in_b": InputSource.ESTIMATED,
    "obj.robot.pelvis.pos_b_rt_w_in_w": InputSource.ESTIMATED,
    "obj.robot.left_hand.w_Q_b": InputSource.ESTIMATED,
    "obj.robot.bodies.lin_vel_b_rt_w_in_w": InputSource.ESTIMATED,
    "obj.cube.cube.pos_b_rt_w_in_w": InputSource.ESTIMATED,
    "obj.drawer.joints.pos": InputSource.ESTIMATED,
    "sensor.imu.torso.ang_vel_b_rt_w_in_b": InputSource.MEASURED,
    "sensor.imu.torso.w_Q_b": InputSource.MEASURED,
    "sensor.imu.torso.lin_acc_b": InputSource.MEASURED,
    "sensor.imu.torso.lin_vel_b_rt_w_in_b": InputSource.ESTIMATED,
    "sensor.contact.feet.found": InputSource.ESTIMATED,
    "sensor.contact.feet.current_air_time": InputSource.ESTIMATED,
    "sensor.contact.feet.force": InputSource.SIMULATOR,
    "sensor.contact.feet.net_forces_w_history": InputSource.SIMULATOR,
    "sensor.ray_caster.terrain.height": InputSource.SIMULATOR,
    "sensor.ray_caster.terrain.hit_pos_w": InputSource.SIMULATOR,
    "sensor.ray_caster.terrain.pos_w": InputSource.ESTIMATED,
    "sensor.camera.front.rgb": InputSource.MEASURED,
    "sensor.tiled_camera.front.distance_to_image_plane": InputSource.MEASURED,
    "sensor.camera.front.segmentation": InputSource.ESTIMATED,
}


@pytest.mark.parametrize("name", SOURCES)
def test_each_kind_of_data_has_a_source(name: str) -> None:
    assert source_of(name, BASES) == SOURCES[name]


@pytest.mark.parametrize("name", ["cmd.se2_velocity.twist", "sensor.smell.nose.strength", "sensor.my_own", "height"])
def test_what_is_not_known_is_not_guessed(name: str) -> None:
    assert source_of(name, BASES) is None


def rows_of_the_page() -> Iterator[tuple[str, str]]:
    """The names of ports in the page's table, and their source."""
    table = PAGE.read_text(encoding="utf-8").partition("## What a robot can have")[2].partition("\n## ")[0]
    for line in re.findall(r"^\| `.*$", table, re.MULTILINE):
        names, source = line.split(" | ")[:2]
        for name in re.findall("`([^`]+)`", names):
            options = [part.split(",") for part in re.split(r"[{}]", name)]
            yield from (("".join(parts), source.strip()) for parts in itertools.product(*options))


def test_the_page_says_the_same() -> None:
    rows = list(rows_of_the_page())
    assert len(rows) > 20 and {source for _, source in rows} == set(InputSource.ALL)
    for name, source in rows:
        example = name.replace("BASE", "pelvis").replace("BODY", "left_hand").replace("OBJECT", "cube")
        assert source_of(example.replace("NAME", "front"), BASES) == source, name


def test_the_robots_are_the_objects_with_outputs() -> None:
    zeros = torch.zeros(1, 1)
    inputs = [RobotPort(Input, f"obj.{name}.joints.pos", lambda: zeros) for name in ("robot", "drawer")]
    output = RobotPort(Output, "output.joint_targets.robot.pos", lambda: zeros, metadata={"unit": "rad"})
    memory = RobotPort(Memory, "actions", lambda: zeros)
    told = with_sources([*inputs, output, memory], {"robot": "pelvis", "drawer": "frame"})
    assert [port.metadata for port in told] == [
        {"source": "measured"},
        {"source": "estimated"},
        {"unit": "rad"},
        None,
    ]


def test_what_a_port_says_itself_comes_first() -> None:
    own = {"unit": "m", "source": "estimated"}
    port = RobotPort(Input, "sensor.ray_caster.map.height", lambda: torch.zeros(1, 1), metadata=own)
    assert with_sources([port], {}) == [port]
