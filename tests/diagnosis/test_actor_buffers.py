"""Buffers of the actor that its forward assigns, or that something else changes, are no weights: they are named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.diagnosis.finding import FindingKind
from exploy.exporter.core.components import Input, Output
from tests.support.builds import (
    Body,
    Gymnasium,
    Hooked,
    LeggedGym,
    Managed,
    assert_found,
    assert_refused,
    assert_sound,
    build,
    evaluates,
    name_of,
)
from tests.support.environments import TestEnvironment, make_actor

pytestmark = pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")


class TwoLevels(torch.nn.Module):
    """A policy whose upper level runs at each 25th step, in the manner of hierarchical ones."""

    latent: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.high = torch.nn.Linear(4, 3)
        self.low = torch.nn.Linear(7, 2)
        self.register_buffer("latent", torch.tensor([[0.1, 0.2, 0.3]]))
        self.t = 1

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        if self.t % 25 == 0:
            self.latent = self.high(obs)
        self.t += 1
        return self.low(torch.cat([obs, self.latent], -1))


class WritesInPlace(TwoLevels):
    """The same, written into the buffer, with the count in a buffer that is no state to save."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.tensor(1), persistent=False)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        if int(self.count) % 25 == 0:
            self.latent.copy_(self.high(obs))
        self.count += 1
        return self.low(torch.cat([obs, self.latent], -1))


class Normalizes(torch.nn.Module):
    """Running statistics, as of a trainer's normaliser."""

    mean: torch.Tensor
    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.low = torch.nn.Linear(4, 2)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.low(obs - self.mean)

    def update(self, obs: torch.Tensor) -> None:
        self.count += 1
        self.mean += (obs[0] - self.mean) / self.count


class UpdatedAtResets(Body):
    """Its reset updates the statistics of the actor, as a training loop would."""

    def setup(self) -> None:
        self.update: Callable[[torch.Tensor], None] = lambda observations: None

    def restart(self) -> None:
        super().restart()
        self.update(torch.full((1, 4), 0.7))


class ForgetsAtResets(Normalizes):
    """reset() of the actor changes a buffer that forward reads."""

    def reset(self, dones: torch.Tensor) -> None:
        self.mean = self.mean + 0.1


class CountsAlone(Normalizes):
    """Sound: a buffer that forward writes and no result depends on."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return super().forward(obs)


class TwoLevelsAlways(TwoLevels):
    """Sound: the buffer is written before it is read, at each step."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.latent = self.high(obs)
        return self.low(torch.cat([obs, self.latent], -1))


WRONG = [
    (Gymnasium, Body, TwoLevels, FindingKind.MISSING_MEMORY, "actor.latent"),
    (LeggedGym, Body, TwoLevels, FindingKind.MISSING_MEMORY, "actor.latent"),
    (Hooked, Body, WritesInPlace, FindingKind.MISSING_MEMORY, "actor.latent"),
    (LeggedGym, UpdatedAtResets, Normalizes, FindingKind.UNREGISTERED_INPUT, "actor.mean"),
    (Gymnasium, UpdatedAtResets, Normalizes, FindingKind.UNREGISTERED_INPUT, "actor.mean"),
    (Managed, Body, ForgetsAtResets, FindingKind.UNREGISTERED_INPUT, "actor.mean"),
]
SOUND = [(LeggedGym, CountsAlone), (Gymnasium, TwoLevelsAlways), (Managed, Normalizes)]


def made(kind: type[Any], body: type[Body], actor: Callable[[], Any]) -> tuple[Any, Any]:
    env, policy = build(kind, body), actor()
    if body is UpdatedAtResets:
        holder = env.robot if kind is LeggedGym else env.gym.unwrapped
        holder.body.update = policy.update
    return env, policy


@pytest.mark.matrix(3)
@pytest.mark.parametrize(("kind", "body", "actor", "finding", "tensor"), WRONG, ids=name_of)
def test_the_check_names_the_buffer(kind, body, actor, finding, tensor):
    assert_found(*made(kind, body, actor), finding, tensor)


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "body", "actor", "finding", "tensor"), WRONG, ids=name_of)
def test_a_strict_export_refuses_it_and_a_file_of_another_differs(
    kind, body, actor, finding, tensor, tmp_path: Path, capsys
):
    assert_refused(*made(kind, body, actor), tmp_path, tensor)
    assert not evaluates(*made(kind, body, actor), tmp_path)
    assert f"{tensor} is" in capsys.readouterr().out


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "actor"), SOUND, ids=name_of)
def test_a_buffer_that_no_later_step_reads_is_fine(kind, actor, tmp_path: Path):
    assert_sound(build(kind, Body), actor(), tmp_path)


class Gain(torch.nn.Module):
    """A gain that a registered module holds, as buffer or as parameter."""

    def __init__(self, is_parameter: bool):
        super().__init__()
        gain = torch.ones(1, 2)
        if is_parameter:
            self.gain = torch.nn.Parameter(gain, requires_grad=False)
        else:
            self.register_buffer("gain", gain)


class Weakened(TestEnvironment):
    """step() halves the gain of a module, in a sub-step alone or for good."""

    def __init__(self, is_parameter: bool, puts_back: bool):
        super().__init__()
        self.state = torch.zeros(1, 4)
        self.drive = Gain(is_parameter)
        self.puts_back = puts_back
        self.applied = 0
        manager = self.context_manager()
        manager.add_module(self.drive)
        manager.add_component(Input("state", lambda: self.state))
        manager.add_component(Output("efforts", lambda: self.targets * self.drive.gain))

    def observe(self) -> torch.Tensor:
        return self.state * 1.0

    def move(self) -> None:
        self.state += self.noise(self.state)
        self.applied += 1
        if self.applied % 4 == 1:
            self.drive.gain.mul_(0.5)
        elif self.applied % 4 == 2 and self.puts_back:
            self.drive.gain.mul_(2.0)


@pytest.mark.parametrize(("is_parameter", "puts_back"), [(False, True), (True, False)], ids=name_of)
def test_the_check_names_what_a_step_changes_in_a_module(is_parameter, puts_back):
    env = Weakened(is_parameter, puts_back)
    assert_found(env, make_actor(4), FindingKind.UNREGISTERED_INPUT, "env.drive.gain")
