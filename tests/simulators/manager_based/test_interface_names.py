"""The names that controllers of robots know."""

import pytest

from exploy.simulators.manager_based.interface_names import is_known_to_robots, name_part

KNOWN = (
    "obj.robot.joints.pos",
    "obj.robot.pelvis.w_Q_b",
    "obj.cube.cube.pos_b_rt_w_in_w",
    "sensor.imu.imu_in_pelvis.ang_vel_b_rt_w_in_b",
    "sensor.ray_caster.terrain_scan.height",
    "cmd.se2_velocity.twist",
    "output.joint_targets.robot.effort",
)
UNKNOWN = (
    "obj.robot.joints.acc",
    "obj.robot.joints.w_Q_b",
    "obj.robot.pelvis.lin_vel_b_rt_w_in_w",
    "sensor.contact.feet.found",
    "cmd.position.lift_height",
    "output.joint_targets.robot",
)


@pytest.mark.parametrize("name", KNOWN)
def test_names_of_the_table_are_known(name: str) -> None:
    assert is_known_to_robots(name)


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_names_are_not(name: str) -> None:
    assert not is_known_to_robots(name)


def test_names_of_simulators_become_parts_of_names() -> None:
    assert name_part("robot/imu-lin.vel") == "robot_imu_lin_vel"
