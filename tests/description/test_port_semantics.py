"""Meaning of ports for a robot, from metadata of components and groups and from known port names."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from exploy.contract import Port, PortKind
from exploy.description.metadata import to_json
from exploy.description.port_semantics import with_semantics
from exploy.errors import MetadataError
from exploy.exporter.core.components import Group, Input, Output
from exploy.runtime.model_file import ModelFile
from tests.support.environments import TestEnvironment, make_actor
from tests.support.files import exported, robot_file
from tests.support.robot import ACTUATORS, DAMPING, JOINTS, STIFFNESS


def port(name: str = "pos", width: int = 3, **metadata: Any) -> Port:
    """A port with its own metadata."""
    return with_semantics(Port(name, "float32", (1, width)), {name: metadata})


def test_a_component_says_what_it_is() -> None:
    found = port(kind="joint_position", names=["a", "b", "c"], unit="rad", limits=[-1, 1.5], frame="base")
    assert (found.kind, found.names, found.unit, found.frame) == ("joint_position", ("a", "b", "c"), "rad", "base")
    assert found.limits == (-1, 1.5)


def test_limits_may_be_one_pair_or_one_for_each_element_and_open() -> None:
    assert port(limits=[None, 2.0]).limits == (None, 2.0)
    assert port(limits=[[0, 1], [None, 2], [-3, None]]).limits == ((0, 1), (None, 2), (-3, None))
    assert port(width=2, limits=[[0, 1], [2, 3]]).limits == ((0, 1), (2, 3))


def test_arrays_of_numpy_are_taken_as_lists() -> None:
    found = port(limits=np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]), stiffness=np.ones(3), on_stop=np.ones(3))
    assert (found.limits, found.on_stop) == (((0.0, 1.0), (0.0, 2.0), (0.0, 3.0)), (1.0, 1.0, 1.0))
    assert port(limits=np.array([-1.0, 1.0])).limits == (-1.0, 1.0)
    assert json.loads(to_json("it", {"limits": np.array([1.0, 2.0]), "n": np.int64(3)})) == {"limits": [1, 2], "n": 3}
    for bad in (np.array([0.0, np.inf]), np.ma.array([0.0, 1.0], mask=[True, False])):
        with pytest.raises(MetadataError, match="cannot be stored as JSON"):
            to_json("it", bad)
        with pytest.raises(MetadataError, match="'limits'"):
            port(limits=bad)


def test_outputs_and_their_groups_say_what_they_are_left_with_on_a_stop() -> None:
    assert port(on_stop="hold").on_stop == "hold"
    assert port(on_stop=0).on_stop == 0.0
    target = Port("g.pos", "float32", (1, 2))
    assert with_semantics(target, {"g": {"on_stop": "zero"}}).on_stop == "zero"
    assert with_semantics(target, {"g": {"on_stop": [1, 2, 3]}}).on_stop is None
    assert with_semantics(target, {"g": {"on_stop": "zero"}, "g.pos": {"on_stop": [1, 2]}}).on_stop == (1.0, 2.0)
    assert with_semantics(target, {"g": {"on_stop": "zero"}}, is_output=False).on_stop is None
    with pytest.raises(MetadataError, match=r"The Input 'g\.pos' has on_stop in its metadata"):
        with_semantics(target, {"g.pos": {"on_stop": "zero"}}, is_output=False)


def test_inputs_and_their_groups_say_where_a_robot_has_them_from() -> None:
    def source(metadata: dict[str, Any], **options: Any) -> str | None:
        return with_semantics(Port("g.pos", "float32", (1, 2)), metadata, **options).source

    of_group, own = {"g": {"source": "measured"}}, {"g.pos": {"source": "simulator"}}
    assert source({}, is_output=False) is None
    assert source(own, is_output=False) == source(own | of_group, is_output=False) == "simulator"
    assert source(of_group, is_output=False) == "measured"
    assert source(of_group, is_output=True) is None
    with pytest.raises(MetadataError, match=r"The Output 'g\.pos' has source in its metadata\. Only Inputs take it"):
        source(own, is_output=True)
    expected = r"'g\.pos' must have one of 'measured', 'estimated', 'simulator' under 'source', got 'encoder'"
    for name in ("g", "g.pos"):
        with pytest.raises(MetadataError, match=expected):
            source({name: {"source": "encoder"}}, is_output=False)


def test_names_of_inputs_do_not_tell_their_source() -> None:
    for name in ("obj.robot.joints.pos", "sensor.ray_caster.front.height"):
        assert with_semantics(Port(name, "float32", (1, 3)), {}, is_output=False).source is None


def test_a_group_speaks_for_its_ports_where_they_say_nothing_and_it_fits() -> None:
    metadata = {"robot": {"frame": "base", "joint_names": ["a", "b"]}, "robot.arm": {"names": ["x", "y", "z"]}}
    arm = with_semantics(Port("robot.arm.pos", "float32", (1, 3)), metadata)
    assert (arm.names, arm.frame) == (("x", "y", "z"), "base")
    legs = with_semantics(Port("robot.legs", "float32", (1, 2)), metadata)
    assert legs.names == ("a", "b")
    quaternion = with_semantics(Port("robot.w_Q_b", "float32", (1, 4)), metadata)
    assert quaternion.names is None
    own = with_semantics(Port("robot.legs", "float32", (1, 2)), metadata | {"robot.legs": {"names": ["c", "d"]}})
    assert own.names == ("c", "d")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("obj.robot.joints.pos", "joint_position"),
        ("obj.robot.joints.vel", "joint_velocity"),
        ("obj.robot.pelvis.w_Q_b", "orientation"),
        ("obj.robot.pelvis.pos_b_rt_w_in_w", "position"),
        ("sensor.imu.torso.ang_vel_b_rt_w_in_b", "angular_velocity"),
        ("sensor.imu.torso.lin_vel_b_rt_w_in_b", "linear_velocity"),
        ("sensor.ray_caster.front.height", "height"),
        ("cmd.se2_velocity.base", "command"),
        ("output.joint_targets.legs.pos", "joint_position_target"),
        ("output.joint_targets.legs.vel", "joint_velocity_target"),
        ("output.joint_targets.legs.effort", "joint_effort_target"),
        ("output.se2_velocity.base", "velocity_target"),
        ("my.sensor", None),
    ],
)
def test_names_that_robots_know_say_what_they_are(name: str, kind: str | None) -> None:
    assert with_semantics(Port(name, "float32", (1, 3)), {}).kind == kind


def test_metadata_of_robot_interfaces_is_understood() -> None:
    targets = {"type": "joint_targets", "names": ["a", "b"], "stiffness": [1, 2.5], "damping": [0.1, 0.2]}
    metadata = {
        "output.joint_targets.legs": targets,
        "cmd.se2_velocity.base": {"ranges": {"lin_vel_x": [-1, 1], "ang_vel_z": [-2, 2]}},
        "cmd.float.height": {"range": [0, 1]},
        "output.se2_velocity.base": {"target_frame": "base"},
    }
    effort = with_semantics(Port("output.joint_targets.legs.effort", "float32", (1, 2)), metadata)
    assert (effort.kind, effort.names) == ("joint_effort_target", ("a", "b"))
    assert effort.gains == {"stiffness": (1.0, 2.5), "damping": (0.1, 0.2)}
    command = with_semantics(Port("cmd.se2_velocity.base", "float32", (1, 2)), metadata)
    assert (command.names, command.limits) == (("lin_vel_x", "ang_vel_z"), ((-1, 1), (-2, 2)))
    assert with_semantics(Port("cmd.float.height", "float32", (1, 1)), metadata).limits == (0, 1)
    assert with_semantics(Port("output.se2_velocity.base", "float32", (1, 3)), metadata).frame == "base"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"names": ["a", "b"]}, "3 different strings, one for each element under 'names', got"),
        ({"names": ["a", "b", "b"]}, "3 different strings"),
        ({"names": "abc"}, "3 different strings"),
        ({"unit": 3}, "a string under 'unit', got 3"),
        ({"kind": ["x"]}, "a string under 'kind'"),
        ({"frame": {}}, "a string under 'frame'"),
        ({"kind": "memory"}, "the file format reserves for its own ports"),
        ({"limits": 3}, r"\[lowest, highest\], or a list of 3 such pairs"),
        ({"limits": [1, -1]}, "lowest, highest"),
        ({"limits": [[0, 1], [0, 1]]}, "3 such pairs"),
        ({"limits": [0, 1, 2]}, "lowest, highest"),
        ({"limits": ["a", "b"]}, "lowest, highest"),
        ({"stiffness": [1.0]}, "3 numbers, one for each element under 'stiffness'"),
        ({"finite": "no"}, "True or False under 'finite'"),
        ({"on_stop": "off"}, """on_stop must be "hold", "zero", a number, or 3 numbers.*got 'off'"""),
        ({"on_stop": 5.0, "limits": [-1, 1]}, r"on_stop must be within the limits \(-1, 1\), got 5\.0"),
    ],
)
def test_metadata_that_does_not_fit_its_own_port_is_refused(metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(MetadataError, match=rf"The metadata of 'pos'.*{message}"):
        port(**metadata)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"stiffness": ["a", "b", "c"]}, "3 numbers"),
        ({"stiffness": [None, None, None]}, "3 numbers"),
        ({"names": [1, 2, 3]}, "3 different strings"),
        ({"joint_names": ["a", "a", "b"]}, "3 different strings"),
        ({"unit": {"of": "pos"}}, "a string under 'unit'"),
        ({"type": "step_count"}, "the file format reserves for its own ports"),
        ({"kind": 3}, "a string under 'kind'"),
    ],
)
def test_metadata_of_a_group_that_makes_no_sense_is_refused(metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(MetadataError, match=message):
        with_semantics(Port("arm.pos", "float32", (1, 3)), {"arm": metadata})


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 10**400])
def test_numbers_that_json_does_not_have_are_refused(number: float) -> None:
    with pytest.raises(MetadataError, match="under 'limits'"):
        port(limits=[0, number])
    with pytest.raises(MetadataError, match="under 'damping'"):
        port(damping=[number, 0, 0])


def test_ranges_of_more_than_the_elements_say_nothing() -> None:
    ranges = {"lin_vel_x": [-1, 1], "ang_vel_z": [-2, 2], "heading": [-3, 3]}
    found = port("cmd.se2_velocity.base", width=2, ranges=ranges)
    assert (found.names, found.limits) == (None, None)


def test_metadata_that_is_no_dictionary_says_nothing() -> None:
    for metadata in (["left", "right"], "text", 3, None):
        found = with_semantics(Port("pos", "float32", (1, 3)), {"pos": metadata})
        assert found == Port("pos", "float32", (1, 3))


def test_gains_of_a_component_and_of_its_group_come_together() -> None:
    metadata = {"g.a": {"stiffness": [1.0, 2, 3]}, "g": {"damping": [0.1, 0.2, 0.3], "stiffness": [9.0, 9, 9]}}
    found = with_semantics(Port("g.a", "float32", (1, 3)), metadata)
    assert found.gains == {"stiffness": (1.0, 2.0, 3.0), "damping": (0.1, 0.2, 0.3)}


def test_an_exported_file_has_it_all() -> None:
    contract = ModelFile.parse(robot_file()).contract
    ports = {item.name: item for item in (*contract.inputs, *contract.outputs)}
    assert ports["ctx.step_count"].kind == PortKind.STEP_COUNT
    assert ports["memory.last.in"].kind == ports["memory.last.out"].kind == PortKind.MEMORY
    assert (ports["obs"].kind, ports["actions"].kind) == (PortKind.OBSERVATIONS, PortKind.ACTIONS)
    assert ports["joints.pos"].names == ports["joints.vel"].names == tuple(JOINTS)
    assert ports["joints.pos"].limits == ((-9, 9), (-9, 9), (-9, 9), (-8, 8))
    assert (ports["joints.vel"].kind, ports["joints.vel"].unit) == ("joint_velocity", "rad/s")
    targets = ports["joint_targets"]
    assert targets.names == tuple(ACTUATORS)
    assert targets.gains == {"stiffness": tuple(STIFFNESS), "damping": tuple(DAMPING)}
    assert contract.sim_dt == 0.005
    assert [(term.name, term.start, term.stop) for term in contract.observation_terms] == [("obs", 0, 13)]


class Lidar(TestEnvironment):
    """A range sensor that measures infinity, and a flag that is set when an episode begins."""

    num_observations = 4

    def __init__(self) -> None:
        super().__init__()
        self.ranges = torch.tensor([[float("inf"), 1.0]])
        self.fresh = torch.tensor([[True, True]])
        manager = self.context_manager()
        manager.add_group(
            Group(
                "sensor",
                [
                    Input("ranges", lambda: self.ranges),
                    Input("is_init", lambda: self.fresh, metadata={"kind": "is_init"}),
                ],
            )
        )
        manager.add_component(Output("targets", lambda: self.targets * 1.0))

    def observe(self) -> torch.Tensor:
        return torch.cat([self.ranges.clamp(max=5.0), self.fresh.float()], dim=-1)

    def move(self) -> None:
        self.ranges[:, 1] += 0.1


def test_an_input_that_is_infinite_at_export_may_be_so_on_the_robot() -> None:
    contract = ModelFile.parse(exported(Lidar(), make_actor(4))).contract
    ports = {item.name: item for item in contract.inputs}
    assert not ports["sensor.ranges"].finite
    assert ports["sensor.is_init"].kind == PortKind.IS_INIT
    assert contract.trace is not None and set(contract.trace.inputs) == {"sensor.ranges"}
