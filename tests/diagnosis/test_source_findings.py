"""The check names the Inputs that a robot cannot have, those to estimate, and those of which it is not told."""

from collections.abc import Mapping

import pytest

import exploy
from exploy.diagnosis.finding import FindingKind, Severity
from exploy.errors import MetadataError
from tests.support.checking import check
from tests.support.environments import make_actor
from tests.support.robot import Robot, RobotInSimulation


def robot(sources: Mapping[str, str]) -> Robot:
    class Told(Robot):
        pass

    Told.sources = sources
    return Told()


def tensors(env: Robot) -> dict[FindingKind, str]:
    """The tensors of the findings about sources."""
    kinds = (FindingKind.SIMULATOR_ONLY, FindingKind.NEEDS_ESTIMATOR, FindingKind.UNKNOWN_SOURCE)
    return {item.kind: item.tensor for item in check(env, make_actor(13, 3), 3).findings if item.kind in kinds}


def test_there_is_one_info_for_each_source_that_asks_something_of_the_robot() -> None:
    diagnosis = check(RobotInSimulation(), make_actor(13, 3), 3)
    assert diagnosis.ok and not diagnosis.suggestions
    told = [(item.kind, item.severity, item.tensor, item.what) for item in diagnosis.findings[:3]]
    assert told == [
        ("simulator only", Severity.INFO, "joints.pos", "only a simulator knows it; a robot cannot have it"),
        ("needs an estimator", Severity.INFO, "joints.vel", "a robot does not measure it; an estimator must give it"),
        ("unknown source", Severity.INFO, "cmd", "it is not told whether a robot can have it"),
    ]


def test_inputs_of_one_source_are_one_finding() -> None:
    found = tensors(robot(dict.fromkeys(("pos", "vel", "cmd"), "estimated")))
    assert found == {FindingKind.NEEDS_ESTIMATOR: "joints.pos, joints.vel, cmd"}


def test_nothing_is_found_where_all_is_measured_or_nothing_is_told() -> None:
    assert tensors(robot(dict.fromkeys(("pos", "vel", "cmd"), "measured"))) == {}
    assert tensors(Robot()) == {}


def test_inputs_that_are_not_in_the_file_do_not_count() -> None:
    env = RobotInSimulation()
    heights = exploy.Input("heights", lambda: env.targets + 1, metadata={"source": "simulator"})
    env.context_manager().add_component(heights)
    assert tensors(env)[FindingKind.SIMULATOR_ONLY] == "joints.pos"


def test_a_source_that_does_not_exist_is_refused() -> None:
    env, actor = robot({"pos": "encoder"}), make_actor(13, 3)
    message = r"metadata of 'joints\.pos' must have one of 'measured', 'estimated', 'simulator' under 'source'"
    with pytest.raises(MetadataError, match=message):
        exploy.export(env, actor, "policy.onnx", strict=False)
    errors = exploy.check_environment(env, actor, 3, reset_within=60).errors
    assert [error.what.partition(", got")[0] for error in errors] == [
        "The metadata of 'joints.pos' must have one of 'measured', 'estimated', 'simulator' under 'source'"
    ]
