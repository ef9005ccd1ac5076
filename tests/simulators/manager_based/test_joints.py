"""Units, limits, gains and gears of joints, as the ports of targets tell them."""

import torch

from exploy.simulators.manager_based.joints import Joint, effort_port, limits, target_ports, units

CART = Joint("cart", slides=True, gains=(10.0, 1.0))
POLE = Joint("pole", slides=False)
KNEE = Joint("knee", slides=False, gains=(40.0, 2.0))
BALL = Joint("hip", slides=None, gains=(40.0, 2.0))
FETCH = {name: lambda: torch.tensor([[1.0, 2.0, 3.0]]) for name in ("pos", "vel", "effort")}


def test_joints_have_one_unit_or_one_each() -> None:
    assert units([POLE, KNEE], "m", "rad") == {"unit": "rad"}
    assert units([CART, KNEE], "m", "rad") == {"units": ["m", "rad"]}
    assert units([KNEE, BALL], "m", "rad") == {}
    assert units([], "m", "rad") == {}


def test_limits_are_a_tenth_wider_than_the_range() -> None:
    assert limits([(-1.0, 1.0)]) == {"limits": [[-1.2, 1.2]]}
    assert limits([(-1.0, 1.0), (-1e6, 1e6)], unlimited=1e5) == {"limits": [[-1.2, 1.2], [None, None]]}


def test_targets_are_those_of_the_joints_with_actuators_and_gains_are_in_their_order() -> None:
    pos, vel, effort = target_ports("my-robot", [KNEE, POLE, CART], FETCH)
    group = pos.group_metadata
    assert pos.name == "output.joint_targets.my_robot.pos" and pos.fetch is not None and group is not None
    assert pos.fetch().tolist() == [[1.0, 3.0]]
    expected = {"names": ["knee", "cart"], "stiffness": [40.0, 10.0], "damping": [2.0, 1.0]}
    assert group == {"type": "joint_targets", **expected}
    stops = [port.metadata["on_stop"] for port in (pos, vel, effort) if port.metadata is not None]
    assert stops == ["hold", "zero", "zero"]


def test_all_joints_are_not_copied() -> None:
    pos, _, _ = target_ports("robot", [CART, KNEE], {name: lambda: held for name in FETCH})
    assert pos.fetch is not None and pos.fetch() is held


held = torch.zeros(1, 2)


def test_a_robot_without_actuators_has_no_targets() -> None:
    assert list(target_ports("box", [POLE], FETCH)) == []


def test_efforts_that_go_through_a_gear_have_no_unit() -> None:
    *_, effort = target_ports("robot", [KNEE, Joint("cart", slides=True, gains=(0.0, 0.0), gear=10.0)], FETCH)
    assert effort.metadata == {"gear": [1.0, 10.0], "on_stop": "zero"}


def test_computed_efforts_have_a_unit_and_stop_at_zero() -> None:
    port = effort_port("robot", [KNEE], lambda: torch.zeros(1, 1))
    assert port.metadata == {"kind": "effort", "unit": "Nm", "names": ["knee"], "on_stop": "zero"}
