"""Actors that have no state when they are registered: fine if it stays so, an error that says what to do if not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.diagnosis.finding import FindingKind
from exploy.errors import ActorError
from exploy.exporter.core.actor import ExportableActor, add_actor_memory, make_exportable_actor
from exploy.exporter.core.components import Input, Memory, Output
from tests.support.checking import check
from tests.support.environments import TestEnvironment, assert_agrees, export, make_actor

WHAT_TO_DO = (
    r"not registered.*Run the actor once before add_actor_memory\(\).*`actor\(env\.empty_actor_observations\(\)\)`"
)


class Sensing(TestEnvironment):
    """One Input, one Output; with hooks."""

    def __init__(self) -> None:
        super().__init__(reset_every=9)
        self.value = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
        self.context_manager().add_components(
            [Input("value", lambda: self.value), Output("targets", lambda: self.targets)]
        )

    def observe(self):
        return self.value * 2

    def move(self):
        self.value += self.noise(self.value)


class Remembering(Sensing):
    """An environment with state of its own, which does not take hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(1, 2)
        self.context_manager().add_component(Memory("last", lambda: self.last))

    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        pass

    def observe(self):
        return self.value * 2 + self.last.repeat(1, 2)

    def process_actions(self, actions):
        super().process_actions(actions)
        self.last[:] = actions


class Lazy(ExportableActor):
    """Has no state before its first call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = torch.nn.LSTMCell(4, 2)
        self.state: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.state = self.cell(obs, self.state)
        return self.state[0] * 1.0

    def reset(self, dones: torch.Tensor) -> None:
        if self.state is not None:
            self.state = tuple(torch.where(dones[:, None], 0.0, item) for item in self.state)  # type: ignore[assignment]

    def get_state(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        return self.state


class PlainLazy(torch.nn.Module):
    """The same as a plain module, which a wrapper makes an actor."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Lazy()

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(obs)
        return result

    def get_state(self) -> Any:
        return self.inner.state


ENVIRONMENTS = pytest.mark.parametrize("make_env", [Sensing, Remembering])
ACTORS = pytest.mark.parametrize("make_recurrent", [Lazy, PlainLazy, lambda: make_exportable_actor(PlainLazy())])
Make = Callable[[], Any]


@pytest.mark.matrix
@ENVIRONMENTS
def test_an_actor_that_stays_without_state_is_fine(make_env: Make, tmp_path: Path) -> None:
    env, actor = make_env(), make_actor(4)
    add_actor_memory(env.context_manager(), actor.get_state)
    diagnosis = check(env, actor)
    assert diagnosis.ok, diagnosis
    assert_agrees(env, actor, tmp_path, steps=30)


def test_registering_an_actor_without_state_changes_nothing_in_file_and_findings(tmp_path: Path) -> None:
    results = []
    for is_registered in (False, True):
        env, actor = Sensing(), make_actor(4)
        if is_registered:
            add_actor_memory(env.context_manager(), actor.get_state)
        session = export(env, actor, tmp_path / str(is_registered))
        results.append((session.input_names, session.output_names, check(env, actor)))
    assert results[0] == results[1]


@ENVIRONMENTS
@ACTORS
def test_state_that_appears_while_the_actor_is_captured_is_an_error(
    make_env: Make, make_recurrent: Make, tmp_path: Path
) -> None:
    env, actor = make_env(), make_recurrent()
    add_actor_memory(env.context_manager(), actor.get_state)
    with pytest.raises(ActorError, match=WHAT_TO_DO):
        export(env, actor, tmp_path)
    assert list(tmp_path.iterdir()) == []


@ENVIRONMENTS
@ACTORS
def test_state_that_has_appeared_before_the_capture_is_an_error(
    make_env: Make, make_recurrent: Make, tmp_path: Path
) -> None:
    env, actor = make_env(), make_recurrent()
    add_actor_memory(env.context_manager(), actor.get_state)
    actor(env.empty_actor_observations())
    with pytest.raises(ActorError, match=WHAT_TO_DO):
        export(env, actor, tmp_path)


@ACTORS
def test_the_check_says_what_to_do(make_recurrent: Make) -> None:
    env, actor = Sensing(), make_recurrent()
    add_actor_memory(env.context_manager(), actor.get_state)
    (finding,) = check(env, actor).errors
    assert finding.kind is FindingKind.CAPTURE_FAILED
    assert "hidden state that is not registered" in finding.what
    assert finding.suggestion.startswith("# Run the actor once before add_actor_memory()")
    assert "`actor(env.empty_actor_observations())`" in finding.suggestion


@pytest.mark.matrix
@ENVIRONMENTS
def test_doing_so_mends_it_on_the_same_environment(make_env: Make, tmp_path: Path) -> None:
    env, actor = make_env(), Lazy()
    add_actor_memory(env.context_manager(), actor.get_state)
    actor(env.empty_actor_observations())
    add_actor_memory(env.context_manager(), lambda: actor.get_state())
    diagnosis = check(env, actor)
    assert diagnosis.ok, diagnosis
    session = assert_agrees(env, actor, tmp_path, steps=30)
    assert "memory.actor_state_1.in" in session.input_names


def test_state_of_which_only_a_part_is_registered_is_still_an_error(tmp_path: Path) -> None:
    env, actor = Sensing(), Lazy()
    add_actor_memory(env.context_manager(), actor.get_state)
    actor(env.empty_actor_observations())
    env.context_manager().add_component(Memory("hidden", lambda: actor.state[0]))  # type: ignore[index]
    with pytest.raises(ActorError, match=WHAT_TO_DO):
        export(env, actor, tmp_path)
    env.context_manager().add_component(Memory("cell", lambda: actor.state[1]))  # type: ignore[index]
    assert_agrees(env, actor, tmp_path, steps=30)


def test_neither_the_actor_nor_the_environment_is_changed_by_asking(tmp_path: Path) -> None:
    env, actor = Sensing(), Lazy()
    manager, value = env.context_manager(), env.value.clone()
    add_actor_memory(manager, actor.get_state)
    ports = manager.get_input_names(), manager.get_output_names()
    for _ in range(2):
        with pytest.raises(ActorError):
            export(env, actor, tmp_path)
    assert actor.state is None and torch.equal(env.value, value)
    assert (manager.get_input_names(), manager.get_output_names()) == ports
    assert manager.stateless_actors == (actor.get_state,)
