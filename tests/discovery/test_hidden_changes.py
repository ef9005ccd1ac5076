"""Elements that matter only after a choice has changed, and changes that no tensor shows: found, or said."""

import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.environment.components import Memory
from tests.discovery.test_traps import faults
from tests.support.discovery_traps.base import ResettableRobot, draw, draw_index, small_actor
from tests.support.discovery_traps.trap import Trap
from tests.support.environments import assert_agrees

pytestmark = pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")
TORQUE = {"torque": "env.torque"}


class SortsByPriority(ResettableRobot):
    """Observes the two readings of the highest priority; the order does not change while it is watched."""

    def setup(self) -> None:
        self.readings, self.priority = torch.zeros(1, 5), torch.tensor([[5.0, 4.0, 3.0, 2.0, 1.0]])

    def more(self) -> torch.Tensor:
        return self.readings.gather(-1, self.priority.argsort(-1, descending=True))[:, :2]

    def simulate(self) -> None:
        super().simulate()
        self.readings.mul_(0.9).add_(self.noise(1, 5))
        self.priority.add_(0.01 * self.noise(1, 5))


def scatter_readings(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.readings.copy_(draw(random, 1, 5))
    env.priority.copy_(draw(random, 1, 5))


class BestTarget(ResettableRobot):
    """Python reads the number of the best target, which stays the same while it is watched."""

    def setup(self) -> None:
        self.scores, self.targets = torch.tensor([5.0, 0.0, 0.0, 0.0]), torch.zeros(4, 2)

    def more(self) -> torch.Tensor:
        return self.targets[self.scores.argmax()][None]

    def simulate(self) -> None:
        super().simulate()
        self.targets.mul_(0.9).add_(self.noise(4, 2))
        self.scores.add_(0.1 * self.noise(4))


def scatter_targets(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.targets.copy_(draw(random, 4, 2))
    env.scores.copy_(draw(random, 4))


class Waypoints(ResettableRobot):
    """Resets draw waypoints; the number of the next one is counted up by steps, but not soon."""

    def setup(self) -> None:
        self.waypoints, self.next_one = torch.zeros(5, 2), torch.zeros(1, dtype=torch.long)

    def more(self) -> torch.Tensor:
        return self.waypoints[self.next_one]

    def end_step(self) -> None:
        self.next_one[:] = min(self.step_number // 15, 4)

    def restart(self) -> None:
        super().restart()
        self.waypoints = self.noise(5, 2)


def scatter_waypoints(env: Any, random: torch.Generator) -> None:
    env.pos.copy_(draw(random, 1, 2))
    env.waypoints = draw(random, 5, 2)
    env.next_one.copy_(draw_index(random, 5, 1))


@pytest.mark.parametrize(
    ("kind", "scatter", "decisions"),
    [
        (SortsByPriority, scatter_readings, {}),
        (BestTarget, scatter_targets, {}),
        (Waypoints, scatter_waypoints, {"env.waypoints": "input"}),
    ],
)
def test_all_elements_that_another_choice_would_read_are_inputs(
    kind: Any, scatter: Any, decisions: dict[str, str], tmp_path: Path
) -> None:
    result = exploy.discover(kind(), small_actor(4), outputs=TORQUE, decisions=decisions)
    assert result.ok, str(result)
    env, actor = kind(), small_actor(4)
    result.register(env, actor)
    trap = Trap(name=kind.__name__, why="", make=lambda: (kind(), small_actor(4)), scatter=scatter)
    assert faults(trap, env, actor, tmp_path) == []
    assert not any(isinstance(item, Memory) for item in env.context_manager().get_input_components())


class JointsOfAState(ResettableRobot):
    """Reads two of many joints by their numbers, which nothing writes."""

    def setup(self) -> None:
        self.state, self.joints = torch.zeros(1, 6), torch.tensor([4, 1])

    def more(self) -> torch.Tensor:
        return self.state[:, self.joints]

    def simulate(self) -> None:
        super().simulate()
        self.state.mul_(0.9).add_(self.noise(1, 6))


class JointsThatNoAttributeHolds(JointsOfAState):
    """The same, but the numbers are in a generator only, which keeps what it has."""

    def setup(self) -> None:
        super().setup()
        self.numbers = self.repeat(self.joints)
        del self.joints

    def repeat(self, numbers: torch.Tensor) -> Iterator[torch.Tensor]:
        while True:
            yield numbers

    def more(self) -> torch.Tensor:
        return self.state[:, next(self.numbers)]


@pytest.mark.parametrize("kind", [JointsOfAState, JointsThatNoAttributeHolds])
def test_inputs_are_narrowed_to_the_elements_at_indices_that_nothing_writes(kind: Any) -> None:
    result = exploy.discover(kind(), small_actor(4), outputs=TORQUE)
    assert result.ok, str(result)
    paths = {item.path for item in result.found if item.path.startswith("env.state")}
    assert paths == {"env.state[:, 1:2]", "env.state[:, 4:5]"}


class LatentOfAHistory(ResettableRobot):
    """Every fifth step makes a latent of the history, and cuts off its gradients; the steps between keep it."""

    width = 5

    def setup(self) -> None:
        self.encoder = small_actor(4)
        self.history, self.latent, self.steps = torch.zeros(1, 2, 2), torch.zeros(1, 2), torch.zeros(1, 1)

    def more(self) -> torch.Tensor:
        self.history = torch.cat([self.history[:, 1:], self.pos[:, None]], 1)
        latent = self.encoder(self.history.flatten(1)).detach()
        self.latent = torch.where(self.steps % 5 == 0, latent, self.latent)
        self.steps = self.steps + 1
        return torch.cat([self.latent, self.history[:, 1, :1]], -1)

    def restart(self) -> None:
        super().restart()
        self.history, self.latent, self.steps = torch.zeros(1, 2, 2), torch.zeros(1, 2), torch.zeros(1, 1)


class BitsOfASensor(ResettableRobot):
    """Reads floats as the integers that their bits are, by a choice that stands on the other branch."""

    def setup(self) -> None:
        self.raw, self.is_raw = torch.zeros(1, 2), torch.zeros(1, 1)

    def more(self) -> torch.Tensor:
        return torch.where(self.is_raw > 0.5, (self.raw.view(torch.int32) % 128).float(), self.pos)

    def simulate(self) -> None:
        super().simulate()
        self.raw.mul_(0.9).add_(self.noise(1, 2))
        self.is_raw.copy_(self.noise(1, 1))


@pytest.mark.parametrize(
    ("kind", "component", "path"),
    [(LatentOfAHistory, "memory", "env.history"), (BitsOfASensor, "input", "env.raw")],
)
def test_what_no_gradient_follows_is_found_behind_a_choice(kind: Any, component: str, path: str) -> None:
    result = exploy.discover(kind(), small_actor(kind.width), outputs=TORQUE)
    assert (component, path) in {(item.kind, item.path) for item in result.found}
    assert result.ok, str(result)


class CopiesBeforeItWrites(ResettableRobot):
    """Each step copies the last target to another tensor, in place, and reads only that."""

    def setup(self) -> None:
        self.last_target, self.target = torch.zeros(1, 2), torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return self.pos * 2.0

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last_target[:] = self.target
        self.target[:] = actions
        self.torque[:] = actions - self.last_target

    def restart(self) -> None:
        super().restart()
        self.last_target.zero_()
        self.target.zero_()


class FillsBeforeItWrites(CopiesBeforeItWrites):
    """Likewise with fill_(), which takes a tensor without dimensions."""

    def setup(self) -> None:
        self.last_target, self.target = torch.zeros(1, 2), torch.tensor(0.0)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last_target.fill_(self.target)
        self.target.copy_(actions[0, 0])
        self.torque[:] = actions - self.last_target


@pytest.mark.parametrize("kind", [CopiesBeforeItWrites, FillsBeforeItWrites])
def test_what_is_copied_before_it_is_overwritten_is_a_memory(kind: Any, tmp_path: Path) -> None:
    result = exploy.discover(kind(), small_actor(4), outputs=TORQUE)
    assert result.ok, str(result)
    assert [item.path for item in result.found if item.kind == "memory"] == ["env.target"]
    env, actor = kind(), small_actor(4)
    result.register(env, actor)
    assert_agrees(env, actor, tmp_path)


class MassInAnArray(ResettableRobot):
    """Resets draw a mass that is in memory of C."""

    def setup(self) -> None:
        self.mass = array.array("f", [1.0, 1.0])

    def more(self) -> torch.Tensor:
        return self.pos * torch.tensor([list(self.mass)])

    def restart(self) -> None:
        super().restart()
        for index, value in enumerate((1 + self.noise(2)).tolist()):
            self.mass[index] = value


def test_what_resets_change_outside_of_tensors_is_a_problem() -> None:
    result = exploy.discover(MassInAnArray(), small_actor(4), outputs=TORQUE)
    (problem,) = result.problems
    assert (problem.kind, problem.tensor) == (FindingKind.UNEXPLAINED, "obs")
    assert "differs after a reset (actions, torque as well)" in problem.what


class SilentCommand(ResettableRobot):
    """Each step writes the same command, in a way that counts no version."""

    def setup(self) -> None:
        self.command = self.made()

    def made(self) -> Any:
        return torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return torch.as_tensor(self.command)

    def end_step(self) -> None:
        self.command.data = torch.zeros(1, 2)


class SilentArray(SilentCommand):
    def made(self) -> Any:
        return np.zeros((1, 2), np.float32)

    def end_step(self) -> None:
        self.command[:] = 0.0


@pytest.mark.parametrize("kind", [SilentCommand, SilentArray])
def test_what_is_always_written_with_the_same_value_is_asked(kind: Any) -> None:
    (question,) = exploy.discover(kind(), small_actor(4), outputs=TORQUE).questions
    assert question.path == "env.command" and "always the same value" in question.what


class LateCommand(ResettableRobot):
    """A command that each step writes, and that is zero for long."""

    def setup(self) -> None:
        self.command = torch.zeros(1, 2)

    def more(self) -> torch.Tensor:
        return self.command

    def end_step(self) -> None:
        self.command.fill_(self.step_number // 150)


def test_a_question_says_what_the_check_has_seen_later() -> None:
    (question,) = exploy.discover(LateCommand(), small_actor(4), outputs=TORQUE).questions
    assert question.path == "env.command"
    assert "always the same value" in question.what and "the check at the end has seen more" in question.what


class Fails(ResettableRobot):
    def more(self) -> torch.Tensor:
        return self.pos

    def prepare_export(self) -> None:
        raise RuntimeError("no simulator")


def test_an_environment_that_cannot_be_prepared_is_a_problem() -> None:
    result = exploy.discover(Fails(), small_actor(4), outputs=TORQUE)
    assert not result.ok and "no simulator" in result.problems[0].what


class Broken(ResettableRobot):
    def more(self) -> torch.Tensor:
        raise RuntimeError("a bug")


def test_a_decision_does_not_hide_that_the_environment_cannot_be_captured() -> None:
    result = exploy.discover(Broken(), small_actor(4), outputs=TORQUE, decisions={"env.goal": "input"})
    assert "a bug" in result.problems[0].what
