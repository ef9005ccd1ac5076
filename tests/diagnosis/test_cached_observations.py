"""An adapter that returns a cached observation computes nothing: that is said, and no Input is suggested for it."""

import pytest
import torch

from exploy.diagnosis.finding import FindingKind
from exploy.exporter.core.components import Input, Output
from tests.diagnosis.test_faults import Robot
from tests.support.checking import check
from tests.support.environments import make_actor


class Task:
    """An environment as of legged_gym: step() fills obs_buf."""

    def __init__(self):
        self.dof_pos, self.dof_vel = torch.zeros(1, 2), torch.ones(1, 2)
        self.torques = torch.zeros(1, 2)
        self.compute_observations()

    def compute_observations(self):
        self.obs_buf = torch.cat([self.dof_pos, self.dof_vel], -1)
        self.obs_dict = {"policy": self.obs_buf * 2.0}

    def simulate(self):
        self.dof_pos = self.dof_pos + 0.1 * self.dof_vel
        self.dof_vel = 0.9 * self.dof_vel + 0.01 * self.torques


class ReturnsBuffer(Robot):
    def setup(self):
        self.task = Task()

    def components(self):
        return [
            Input("dof_pos", lambda: self.task.dof_pos),
            Input("dof_vel", lambda: self.task.dof_vel),
            Output("torques", lambda: self.task.torques),
        ]

    def observe(self):
        return self.task.obs_buf

    def process_actions(self, actions):
        self.task.torques[:] = actions

    def move(self):
        self.task.simulate()
        self.task.compute_observations()


class ClipsBuffer(ReturnsBuffer):
    def observe(self):
        return torch.clip(self.task.obs_buf, -100.0, 100.0)


class ReturnsDictionary(ReturnsBuffer):
    """As adapters of gymnasium's vectorised environments do."""

    def observe(self):
        return self.task.obs_dict["policy"]


class ComputesAgain(ReturnsBuffer):
    """Looks alike, and computes the buffer before it is returned."""

    def observe(self):
        self.task.compute_observations()
        return self.task.obs_buf


@pytest.mark.parametrize("kind", [ReturnsBuffer, ClipsBuffer, ReturnsDictionary])
def test_a_cached_observation_is_called_one(kind):
    diagnosis = check(kind(), make_actor(4))
    (finding,) = diagnosis.errors
    assert finding.kind is FindingKind.STALE_CACHE
    assert finding.tensor == ("env.task.obs_dict['policy']" if kind is ReturnsDictionary else "env.task.obs_buf")
    assert "(in compute_observations)" in finding.what and "nothing is computed from the Inputs" in finding.what
    assert finding.suggestion.startswith("# in compute_observations(), call compute_observations() instead")
    assert diagnosis.suggestions == (finding.suggestion,)


def test_a_buffer_that_is_computed_again_is_none():
    diagnosis = check(ComputesAgain(), make_actor(4))
    assert diagnosis.ok, diagnosis
