"""`exploy.discover()`: what it asks and refuses, what it leaves as it was, and the code that it prints."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import exploy
from exploy.environment.components import Input, Output
from exploy.errors import (
    ComponentError,
    DiscoveryError,
    DuplicateNameError,
    IncompleteDiscoveryWarning,
    InvalidEnvironmentError,
)
from tests.discovery.test_known_environments import CASES, stripped
from tests.support import tutorial
from tests.support.discovery_traps.base import ResettableRobot, TrapRobot, small_actor
from tests.support.environments import assert_agrees

TORQUE = {"torque": "env.torque"}


class Drone(ResettableRobot):
    """Measures its position and speed, keeps its last action, and gets a mass at each reset."""

    width = 6

    def setup(self) -> None:
        self.speed = torch.zeros(1, 2)
        self.last_action = torch.zeros(1, 2)
        self.mass = torch.ones(1, 1)

    def more(self) -> torch.Tensor:
        return torch.cat([self.speed / self.mass, self.last_action], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        super().process_actions(actions)
        self.last_action[:] = actions

    def simulate(self) -> None:
        super().simulate()
        self.speed = 0.9 * self.speed + self.noise(1, 2)

    def restart(self) -> None:
        super().restart()
        self.last_action.zero_()
        self.mass = 1.0 + self.noise(1, 1).abs()


def drone() -> tuple[Drone, torch.nn.Module]:
    return Drone(), small_actor(Drone.width)


def test_inputs_memories_and_what_only_resets_change_are_told_apart() -> None:
    result = exploy.discover(*drone(), outputs=TORQUE)
    assert {(item.kind, item.name, item.path) for item in result.found} == {
        ("input", "pos", "env.pos"),
        ("input", "speed", "env.speed"),
        ("memory", "last_action", "env.last_action"),
        ("output", "torque", "env.torque"),
    }
    assert [(item.path, item.proposal, set(item.options)) for item in result.questions] == [
        ("env.mass", "constant", {"input", "constant"})
    ]
    assert not result.ok and not result.problems


@pytest.mark.parametrize("answer", ["input", "constant"])
def test_a_decision_settles_a_question(answer: str, tmp_path: Path) -> None:
    env, actor = drone()
    result = exploy.discover(env, actor, outputs=TORQUE, decisions={"env.mass": answer}, register=True)
    assert result.ok, str(result)
    inputs = {item.name for item in env.context_manager().get_input_components()}
    constants = {item.name for item in env.context_manager().get_constants()}
    assert ("mass" in inputs, "mass" in constants) == (answer == "input", answer == "constant")
    assert exploy.export(env, actor, tmp_path / "policy.onnx").path.exists()


def test_outputs_are_proposed_and_never_taken() -> None:
    result = exploy.discover(*drone(), decisions={"env.mass": "constant"})
    assert all(item.kind != "output" for item in result.found)
    (question,) = result.questions
    assert question.path == "outputs"
    assert any("env.torque" in line for line in question.options.values())
    assert not result.ok


class KeepsActionsInStep(ResettableRobot):
    """Its step() keeps the last actions, and no stage does."""

    def setup(self) -> None:
        self.last_action = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return self.last_action

    def step(self, actions: torch.Tensor) -> Any:
        self.last_action = actions.clone()
        return super().step(actions)

    def restart(self) -> None:
        super().restart()
        self.last_action = torch.zeros(1, 2)


def test_actions_that_only_step_keeps_are_asked_and_no_input_by_themselves() -> None:
    result = exploy.discover(KeepsActionsInStep(), small_actor(4), outputs=TORQUE)
    (question,) = result.questions
    assert (question.path, set(question.options)) == ("env.last_action", {"input"})
    assert "process_actions()" in question.what
    assert [item.name for item in result.found if item.kind == "input"] == ["pos"]
    decided = exploy.discover(
        KeepsActionsInStep(), small_actor(4), outputs=TORQUE, decisions={"env.last_action": "input"}
    )
    assert decided.ok, str(decided)


class Alternating(ResettableRobot):
    """A sensor changes at each tick, and has the same value again at the end of each step."""

    width = 2

    def setup(self) -> None:
        self.side = torch.ones(1, 1)

    def compute_observations(self) -> torch.Tensor:
        return self.pos * 1.0

    def apply_actions(self) -> None:
        self.torque.mul_(self.side)

    def simulate(self) -> None:
        super().simulate()
        self.side.copy_(1.5 - self.side)


def test_what_the_check_has_seen_to_change_within_steps_is_proposed_as_input() -> None:
    (question,) = exploy.discover(Alternating(), small_actor(2), outputs=TORQUE).questions
    assert (question.path, question.proposal) == ("env.side", "input")
    assert "the check at the end has seen more" in question.what


def test_what_is_registered_stays_and_the_rest_is_found() -> None:
    env, actor = drone()
    env.context_manager().add_component(Input("velocity", lambda: env.speed))
    result = exploy.discover(env, actor, outputs=TORQUE)
    assert {item.name for item in result.found} == {"pos", "last_action", "torque"}
    assert [item.name for item in env.context_manager().get_input_components()] == ["velocity"]


def test_the_environment_is_as_before_but_for_the_steps() -> None:
    env, actor = drone()
    env.observations_reset()
    before = {name: id(value) for name, value in vars(env).items()}
    generator, weights = torch.random.get_rng_state(), [item.clone() for item in actor.parameters()]
    exploy.discover(env, actor, outputs=TORQUE)
    after = {name: id(value) for name, value in vars(env).items()}
    moved = {"step_number", "speed", "mass", "hooks"}
    assert {name for name in before | after if before.get(name) != after.get(name)} <= moved
    assert not env.context_manager().get_input_components() and not env.context_manager().get_output_components()
    assert actor.training
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert all(torch.equal(one, two) for one, two in zip(weights, actor.parameters(), strict=True))


def test_register_at_once_warns_of_what_is_left_open() -> None:
    env, actor = drone()
    with pytest.warns(IncompleteDiscoveryWarning, match=r"env\.mass"):
        exploy.discover(env, actor, outputs=TORQUE, register=True)
    assert {item.name for item in env.context_manager().get_input_components()} == {"pos", "speed", "last_action"}


def test_registering_twice_is_refused_whole() -> None:
    env, actor = drone()
    result = exploy.discover(env, actor, outputs=TORQUE)
    env.context_manager().add_component(Input("speed", lambda: env.speed))
    with pytest.raises(DuplicateNameError):
        result.register(env, actor)
    assert [item.name for item in env.context_manager().get_input_components()] == ["speed"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"outputs": {"torque": "env.torques"}},
            r"'env.torques' raises AttributeError.* must exist before the first step",
        ),
        ({"outputs": {"torque": "env.decimation"}}, r"must be a torch.Tensor, got int"),
        ({"decisions": {"env.mass": "memory"}}, r"must be one of input, constant, got 'memory'"),
        ({"decisions": {"env.speed": "input"}}, r"no question about env.speed. Open: env.mass"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DiscoveryError, match=message):
        exploy.discover(*drone(), outputs=options.get("outputs", TORQUE), decisions=options.get("decisions"))


def test_the_name_of_an_output_that_is_registered_already_is_refused_at_once() -> None:
    env, actor = drone()
    env.context_manager().add_component(Output("torque", lambda: env.torque))
    with pytest.raises(DuplicateNameError, match="torque"):
        exploy.discover(env, actor, outputs=TORQUE)


def test_an_output_may_have_any_name_that_a_component_can_have() -> None:
    result = exploy.discover(*drone(), outputs={'left "motor"'.replace(" ", "_"): "env.torque"})
    env, actor = drone()
    result.register(env, actor)
    assert env.context_manager().get_component_by_name('left_"motor"') is not None
    with pytest.raises(ComponentError, match="white space"):
        exploy.discover(*drone(), outputs={"left motor": "env.torque"})


def test_a_robot_that_gets_the_actions_alone_needs_no_output() -> None:
    result = exploy.discover(*drone(), outputs={}, decisions={"env.mass": "constant"})
    assert result.ok, str(result)


def test_a_file_is_proposed_no_output_that_is_made_by_a_step() -> None:
    class Late(Drone):
        def process_actions(self, actions: torch.Tensor) -> None:
            super().process_actions(actions)
            self.target = 2.0 * actions

    (question,) = exploy.discover(Late(), small_actor(6), decisions={"env.mass": "constant"}).questions
    assert set(question.options) == {"torque"}


def test_no_steps_are_refused() -> None:
    with pytest.raises(InvalidEnvironmentError, match="steps of 1 or more"):
        exploy.discover(*drone(), steps=0)


class Falls(TrapRobot):
    def more(self) -> torch.Tensor:
        return self.pos

    def end_step(self) -> None:
        raise RuntimeError("the robot fell")


def test_an_environment_that_cannot_step_is_a_problem_and_no_error() -> None:
    result = exploy.discover(Falls(), small_actor(4), outputs=TORQUE)
    assert any("the robot fell" in item.what for item in result.problems)


def test_the_state_that_an_actor_makes_in_its_first_step_is_a_memory(tmp_path: Path) -> None:
    env = tutorial.ExportableEnv(tutorial.Environment(tutorial.DataSource()))
    actor = tutorial.RNNActor(env.env.num_obs, env.env.num_act)
    result = exploy.discover(env, actor, outputs={"out": "env.env._output"})
    assert result.ok, str(result)
    assert actor.get_state() is None
    result.register(env, actor)
    assert_agrees(env, actor, tmp_path, steps=30)


# -- the printed code ------------------------------------------------------------------------------------------------

PASTED = """
import sys
sys.path.insert(0, {folder!r})
import exploy
import registration
from tests.discovery.test_discovery import make
env, actor = make({case!r})
registration.register(env, actor)
exploy.export(env, actor, {file!r}, strict=False)
"""


def make(case: str) -> tuple[exploy.ExportableEnvironment, torch.nn.Module]:
    """An environment without registrations, in the state that each process begins with."""
    return drone() if case == "drone" else stripped(*CASES[case]())


@pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")
@pytest.mark.matrix(1)
@pytest.mark.parametrize("case", ["drone", "Robot", "TorchCartPole", "body of Managed", "PD robot 0", "camera"])
def test_the_code_pasted_in_another_process_gives_the_same_file(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    env, actor = make(case)
    result = exploy.discover(env, actor, outputs=TORQUE if case == "drone" else None)
    result.write(tmp_path / "registration.py")
    env, actor = make(case)
    result.register(env, actor)
    exploy.export(env, actor, tmp_path / "policy.onnx", strict=False)
    pasted = tmp_path / "pasted" / "policy.onnx"
    code = PASTED.format(folder=str(tmp_path), case=case, file=str(pasted))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert pasted.read_bytes() == (tmp_path / "policy.onnx").read_bytes()


def test_the_code_lists_questions_as_comments_and_can_be_linted(tmp_path: Path) -> None:
    file = exploy.discover(*drone(), outputs=TORQUE).write(tmp_path / "registration.py")
    text = file.read_text()
    assert "# constant (proposed):" in text
    assert '# env.context_manager().add_constant("mass", lambda: env.mass)' in text
    done = subprocess.run([sys.executable, "-m", "ruff", "check", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_table_names_components_questions_and_lines() -> None:
    text = str(exploy.discover(*drone(), outputs=TORQUE))
    assert text.startswith("Found 2 inputs, 1 memory, 1 output in ")
    assert "; 1 to decide." in text
    for words in ("env.last_action", "to decide", "env.mass", "def register(env: Any, actor: Any)"):
        assert words in text
