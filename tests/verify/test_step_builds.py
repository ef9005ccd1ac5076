"""Steps are compared by what the simulator gets, whatever else a step does: right ones agree, wrong twins do not.

Environments here are in the manner of legged_gym; none calls a hook.
"""

from pathlib import Path

import torch

from exploy.exporter.core.evaluator import evaluate
from tests.support.environments import export, make_actor
from tests.support.leg_builds import Inner, LeggedGym
from tests.support.legs import NUM_OBSERVATIONS, Kind, Legs
from tests.support.verdicts import cases, errors, verdict


class Assigning(LeggedGym):
    """The torque is assigned after the shared function has returned. Subclasses add to the step."""

    def begin(self) -> None: ...

    def before_move(self) -> None: ...

    def after_move(self) -> None: ...

    def after_moves(self) -> None: ...

    def after_observations(self) -> None: ...

    def torques(self) -> torch.Tensor:
        return self._compute_torques(self.legs.current)

    def apply_actions(self) -> None:
        self.legs.torque = self.torques().view(self.legs.torque.shape)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.legs.accept(actions)
        self.begin()
        for _ in range(self.decimation):
            self.legs.torque = self.torques().view(self.legs.torque.shape)
            self.before_move()
            self.legs.move()
            self.after_move()
        self.after_moves()
        done = self.legs.end_step()
        self.compute_observations()
        observations = self.obs_buf
        self.after_observations()
        return observations, done


class Writing(Assigning):
    """The shared function writes the torque itself."""

    def __init__(self, legs: Legs):
        super().__init__(legs)
        self.inner = Inner(legs)

    def apply_actions(self) -> None:
        self.inner.apply_torque()

    def torques(self) -> torch.Tensor:
        self.inner.apply_torque()
        return self.legs.torque


# -- Outputs that step() changes ------------------------------------------------------------------------------------


class ClearsAfterMove(Assigning):
    def after_move(self) -> None:
        self.legs.torque.zero_()


class ClearsByNewTensor(Assigning):
    def after_move(self) -> None:
        self.legs.torque = torch.zeros(1, 2)


class ClearsAtEnd(Writing):
    def after_moves(self) -> None:
        self.legs.torque.zero_()


class ClearsAfterMoveInPlace(Writing):
    def after_move(self) -> None:
        self.legs.torque.zero_()


class ClearsBeforeMove(Assigning):
    def before_move(self) -> None:
        self.legs.torque.zero_()


class WeakensAndClears(ClearsAfterMoveInPlace):
    def before_move(self) -> None:
        self.legs.torque *= 0.9


class WeakensAndRestores(Writing):
    def before_move(self) -> None:
        self.strong = self.legs.torque.clone()
        self.legs.torque *= 0.9

    def after_move(self) -> None:
        self.legs.torque.copy_(self.strong)


@cases(1, ClearsAfterMove, ClearsAtEnd, ClearsByNewTensor, ClearsAfterMoveInPlace)
def test_an_output_may_be_cleared_after_the_simulator_has_moved(kind, tmp_path: Path, capsys):
    assert verdict(kind(Legs(Kind.PLAIN)), tmp_path, capsys) == "agrees"
    assert errors(kind(Legs(Kind.PLAIN))) == []


@cases(1, WeakensAndRestores, WeakensAndClears, ClearsBeforeMove)
def test_an_output_must_not_be_changed_before(kind, tmp_path: Path, capsys):
    assert verdict(kind(Legs(Kind.PLAIN)), tmp_path, capsys) == "differs"
    assert errors(kind(Legs(Kind.PLAIN))) != []


class ClearsAndSenses(Assigning):
    """After the torque was cleared, another Input changes: nobody knows which change is the simulator's."""

    def after_moves(self) -> None:
        self.legs.torque.zero_()
        self.legs.contact = self.legs.contact + 0.1


def test_if_it_is_not_known_what_the_simulator_got_nothing_is_claimed(tmp_path: Path, capsys):
    env = ClearsAndSenses(Legs(Kind.PLAIN, decimation=1))
    session = export(env, make_actor(NUM_OBSERVATIONS), tmp_path, initial_memory="reset")
    assert not evaluate(env, env.context_manager(), session, 10, pause_on_failure=False)[0]
    report = " ".join(capsys.readouterr().out.split())
    assert "incomplete: torque could not be compared" in report and "what the simulator got" in report


# -- functions that are called for something else as well -----------------------------------------------------------


class RewardsTorque(Assigning):
    def after_moves(self) -> None:
        self.reward = self.torques().square().sum()


class RewardsWrittenTorque(Writing):
    def after_moves(self) -> None:
        self.reward = self.torques().square().sum()


class LogsTorqueInLoop(Writing):
    def after_move(self) -> None:
        self.log = self.torques().clone()


class EstimatesTorqueFirst(Assigning):
    def begin(self) -> None:
        self.estimate = self.torques()


class MovesOnceMore(Writing):
    """Five sub-steps, one of them from another line, where decimation is four."""

    def begin(self) -> None:
        self.torques()
        self.legs.move()


@cases(1, RewardsWrittenTorque, RewardsTorque, LogsTorqueInLoop, EstimatesTorqueFirst)
def test_a_torque_law_may_be_called_for_a_reward(kind, tmp_path: Path, capsys):
    assert verdict(kind(Legs(Kind.PLAIN)), tmp_path, capsys) == "agrees"
    assert errors(kind(Legs(Kind.PLAIN))) == []


def test_a_sub_step_too_many_is_not_taken_for_a_reward(tmp_path: Path, capsys):
    assert verdict(MovesOnceMore(Legs(Kind.PLAIN)), tmp_path, capsys) != "agrees"
    assert any("5 times" in item for item in errors(MovesOnceMore(Legs(Kind.PLAIN))))


class MirrorsAfterwards(Assigning):
    """Observations of the mirrored state, for symmetry."""

    def after_observations(self) -> None:
        position = self.legs.position
        self.legs.position = position.flip(-1)
        self.mirrored = self.compute_observations()
        self.legs.position = position


class PredictsAfterwards(Assigning):
    """Observations of another contact, for a critic."""

    def after_observations(self) -> None:
        contact, self.legs.contact = self.legs.contact, torch.ones(1, 2)
        self.critic = self.compute_observations()
        self.legs.contact = contact


class KeepsTerminalObservations(Assigning):
    def after_moves(self) -> None:
        self.terminal = self.compute_observations()


class ObservesMirrored(Assigning):
    """Returns the observations of a state that the file does not get: wrong."""

    def compute_observations(self) -> torch.Tensor:
        return super().compute_observations()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        observations, done = super().step(actions)
        return torch.cat([observations[:, :2].flip(-1), observations[:, 2:]], -1), done


@cases(1, MirrorsAfterwards, PredictsAfterwards, KeepsTerminalObservations)
def test_observations_of_other_states_may_be_computed_as_well(kind, tmp_path: Path, capsys):
    assert verdict(kind(Legs(Kind.PLAIN)), tmp_path, capsys) == "agrees"
    assert errors(kind(Legs(Kind.PLAIN))) == []


def test_they_must_not_be_returned(tmp_path: Path, capsys):
    assert verdict(ObservesMirrored(Legs(Kind.PLAIN)), tmp_path, capsys) == "differs"
