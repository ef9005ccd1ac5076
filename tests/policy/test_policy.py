"""Policies are pure functions that keep their state between steps when used as actors."""

from typing import Any

import pytest
import torch

from exploy.errors import ActorError, PolicyError
from exploy.policy.policy import BATCH, Policy, PolicyInput, PolicyState, Tensors


class Summing(Policy):
    """Accumulates its two inputs."""

    def __init__(self, names: tuple[str, str] = ("left", "right")):
        inputs = [PolicyInput(name, (BATCH, 2)) for name in names]
        super().__init__(inputs, [PolicyState("total", (3, BATCH, 2))])

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        total = states[0] + inputs[0] + inputs[1]
        return (total[0],), (total,)


def observations(batch: int = 1) -> dict[str, torch.Tensor]:
    return {"left": torch.ones(batch, 2), "right": torch.full((batch, 2), 2.0)}


def test_state_is_kept_and_reset_for_each_robot() -> None:
    actor = Summing()
    states = actor.get_state()
    assert states is not None and states[0].shape == (3, 1, 2) and not states[0].any()
    assert torch.equal(actor(observations(2)), torch.full((2, 2), 3.0))
    assert torch.equal(actor(observations(2)), torch.full((2, 2), 6.0))
    actor.reset(torch.tensor([True, False]))
    assert torch.equal(actor(observations(2)), torch.tensor([[3.0, 3.0], [9.0, 9.0]]))


def test_a_step_changes_nothing() -> None:
    actor = Summing()
    states = actor.get_state()
    assert states is not None
    actor.step(tuple(observations().values()), states)
    assert actor.get_state() is states and not states[0].any()


def test_inputs_are_given_by_name() -> None:
    with pytest.raises(ActorError, match=r"reads left, right, but got one tensor\. Give a dictionary"):
        Summing()(torch.ones(1, 2))
    with pytest.raises(ActorError, match="right is missing"):
        Summing()({"left": torch.ones(1, 2)})


@pytest.mark.parametrize("names", [("same", "same"), ("left", "actions"), ("total_in", "right")])
def test_two_ports_of_one_name_are_refused(names: Any) -> None:
    with pytest.raises(PolicyError, match="would have the name"):
        Summing(names)
