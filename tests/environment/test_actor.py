"""Actors: any module can be an actor, and its state can be registered."""

from typing import Any

import pytest
import torch

from exploy.errors import ActorError, DuplicateNameError
from exploy.exporter.core.actor import ExportableActor, add_actor_memory, make_exportable_actor
from exploy.exporter.core.context_manager import ContextManager


class Doubling(ExportableActor):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return 2 * obs


class Recurrent(torch.nn.Module):
    """Not an ExportableActor, but has its methods. Creates a new state tensor at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.LSTMCell(3, 2)
        self.state: tuple[torch.Tensor, torch.Tensor] | None = None

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.state = self.cell(obs, self.state)
        return self.state[0]

    def reset(self, dones: torch.Tensor) -> None:
        if self.state is not None:
            with torch.no_grad():
                for value in self.state:
                    value[dones] = 0.0

    def get_state(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        return self.state


OBS = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]])


# -- ExportableActor ------------------------------------------------------------------------------------------


def test_an_actor_needs_a_forward() -> None:
    with pytest.raises(TypeError, match="forward"):
        ExportableActor()  # type: ignore[abstract]


def test_an_actor_has_no_state_unless_it_says_so() -> None:
    actor = Doubling()
    actor.reset(torch.tensor([True]))
    assert actor.get_state() is None
    assert actor(OBS).tolist() == (2 * OBS).tolist()


# -- make_exportable_actor ------------------------------------------------------------------------------------


def test_an_exportable_actor_is_returned_as_it_is() -> None:
    actor = Doubling()
    assert make_exportable_actor(actor) is actor


def test_a_plain_module_computes_the_same_as_before() -> None:
    module = torch.nn.Linear(3, 2)
    actor = make_exportable_actor(module)
    assert isinstance(actor, ExportableActor)
    torch.testing.assert_close(actor(OBS), module(OBS), rtol=0, atol=0)


def test_the_parameters_are_those_of_the_module_and_not_copies() -> None:
    module = torch.nn.Linear(3, 2)
    actor = make_exportable_actor(module)
    assert {id(value) for value in actor.parameters()} == {id(module.weight), id(module.bias)}


def test_reset_is_kept() -> None:
    module = Recurrent()
    actor = make_exportable_actor(module)
    actor(OBS)
    actor.reset(torch.tensor([True, False]))
    assert module.state is not None
    for value in module.state:
        assert not value[0].any()
        assert value[1].all()


def test_get_state_is_kept() -> None:
    module = Recurrent()
    actor = make_exportable_actor(module)
    assert actor.get_state() is None
    actor(OBS)
    assert module.state is not None
    assert actor.get_state() is module.state


def test_a_module_without_reset_and_get_state_has_nothing_to_remember() -> None:
    actor = make_exportable_actor(torch.nn.Linear(3, 2))
    actor.reset(torch.tensor([True, False]))
    assert actor.get_state() is None


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_that_of_the_module(training: bool) -> None:
    module = torch.nn.Dropout(0.9).train(training)
    actor = make_exportable_actor(module)
    assert actor.training is training
    assert module.training is training


def test_changing_the_mode_reaches_the_module() -> None:
    module = torch.nn.Dropout(0.999)
    make_exportable_actor(module).eval()
    assert not module.training
    torch.testing.assert_close(module(OBS), OBS)


@pytest.mark.parametrize("actor", [lambda obs: obs, torch.tanh, None, Doubling])
def test_what_is_no_module_is_refused_with_advice(actor: Any) -> None:
    with pytest.raises(ActorError, match=r"must be a torch\.nn\.Module, got .*forward\(obs\)"):
        make_exportable_actor(actor)


# -- add_actor_memory -----------------------------------------------------------------------------------------


@pytest.fixture
def manager() -> ContextManager:
    return ContextManager()


def test_every_state_tensor_becomes_a_memory(manager: ContextManager) -> None:
    actor = make_exportable_actor(Recurrent())
    actor(OBS)
    add_actor_memory(manager, actor.get_state)
    assert [memory.name for memory in manager.get_memory_components()] == ["actor_state_0", "actor_state_1"]
    assert manager.get_input_names() == ["memory.actor_state_0.in", "memory.actor_state_1.in"]
    assert manager.get_output_names() == ["memory.actor_state_0.out", "memory.actor_state_1.out"]


def test_memories_follow_a_state_that_is_replaced_at_every_call(manager: ContextManager) -> None:
    actor = make_exportable_actor(Recurrent())
    actor(OBS)
    add_actor_memory(manager, actor.get_state)
    actor(OBS)
    state = actor.get_state()
    assert state is not None
    outputs = manager.get_outputs()
    assert outputs["memory.actor_state_0.out"] is state[0]
    assert outputs["memory.actor_state_1.out"] is state[1]


def test_a_single_tensor_is_a_state_of_one(manager: ContextManager) -> None:
    hidden = torch.ones(1, 4)
    add_actor_memory(manager, lambda: hidden)  # type: ignore[arg-type, return-value]
    assert manager.get_input_names() == ["memory.actor_state_0.in"]
    assert manager.get_inputs()["memory.actor_state_0.in"] is hidden


@pytest.mark.parametrize("state", [None, ()])
def test_nothing_is_registered_for_an_actor_without_state_but_it_is_remembered(
    manager: ContextManager, state: Any
) -> None:
    def get_state() -> Any:
        return state

    add_actor_memory(manager, get_state)
    assert manager.get_memory_components() == []
    assert manager.stateless_actors == (get_state,)


def test_an_actor_with_state_is_not_remembered_as_one_without(manager: ContextManager) -> None:
    module = Recurrent()
    module(OBS)
    add_actor_memory(manager, module.get_state)
    assert manager.stateless_actors == ()


def test_an_actor_that_loses_its_state_later_is_told_so(manager: ContextManager) -> None:
    module = Recurrent()
    module(OBS)
    add_actor_memory(manager, module.get_state)
    module.state = None
    with pytest.raises(ActorError, match=r"no hidden state, but had 2 .*Run it once, .*empty_actor_observations"):
        manager.read_inputs()


def test_the_state_of_an_actor_is_registered_once(manager: ContextManager) -> None:
    module = Recurrent()
    module(OBS)
    add_actor_memory(manager, module.get_state)
    with pytest.raises(DuplicateNameError, match="actor_state_0"):
        add_actor_memory(manager, module.get_state)
    assert len(manager.get_memory_components()) == 2


def test_a_state_that_shrinks_is_an_actor_error():
    states = [(torch.zeros(1), torch.zeros(1))]
    manager = ContextManager()
    add_actor_memory(manager, lambda: states[0])
    states[0] = states[0][:1]  # type: ignore[assignment]
    with pytest.raises(ActorError, match=r"had 2 hidden states .* has 1 now"):
        manager.read_inputs()
