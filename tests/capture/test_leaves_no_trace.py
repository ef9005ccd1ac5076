"""An export restores the environment, the actor and the random generators."""

import enum
import functools
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from exploy.exporter.core.actor import ExportableActor, add_actor_memory
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.live.snapshot import ProtectUnseen, Snapshot
from tests.support.environments import TestEnvironment, export, make_actor


class Messy(TestEnvironment):
    """Rebinds, writes in place, counts in Python, appends to lists and draws random numbers while it computes."""

    num_observations = 3

    def __init__(self):
        super().__init__()
        self.value = torch.ones(1, 3)
        self.last = torch.zeros(1, 3)
        self.cache = {"value": self.value}
        self.log: list[int] = []
        self.calls = 0
        self.generator = torch.Generator().manual_seed(4)
        self.numpy_generator = np.random.default_rng(4)
        self.python_generator = random.Random(4)
        self.slots = SimpleNamespace(count=0)
        self.context_manager().add_components(
            [
                Input("value", lambda: self.value),
                Memory("last", lambda: self.last),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self):
        self.calls += 1
        self.slots.count += 1
        self.log.append(self.calls)
        self.cache["latest"] = self.value * 2
        torch.rand(2, generator=self.generator), torch.rand(2)
        self.numpy_generator.random(), np.random.rand(), self.python_generator.random(), random.random()
        self.last = self.last + self.value
        return self.last * 0.5

    def process_actions(self, actions):
        self.targets = actions * 2
        self.value.mul_(1.0)

    def move(self):
        self.value += self.noise(self.value)

    def fingerprint(self):
        return (
            [(name, id(item)) for name, item in vars(self).items()],
            [tensor.tolist() for tensor in (self.value, self.last, self.targets)],
            (self.calls, self.slots.count, list(self.log), list(self.cache)),
            (self.generator.get_state().tolist(), self.numpy_generator.bit_generator.state),
            (self.python_generator.getstate(), torch.get_rng_state().tolist(), random.getstate()),
            str(np.random.get_state()),
        )


class DropoutActor(ExportableActor):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.BatchNorm1d(3)
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2).eval())
        self.calls = 0

    def forward(self, obs):
        self.calls += 1
        return self.net(self.norm(obs))


def test_environment_actor_and_generators_are_as_before(tmp_path: Path):
    env, actor = Messy(), DropoutActor()
    before = env.fingerprint()
    weights = {name: value.clone() for name, value in actor.state_dict().items()}
    export(env, actor, tmp_path)
    assert env.fingerprint() == before
    assert actor.calls == 0
    assert actor.training and actor.net.training and actor.norm.training
    assert not actor.net[2].training
    assert all(torch.equal(value, weights[name]) for name, value in actor.state_dict().items())


def test_a_failed_export_restores_as_well(tmp_path: Path):
    class Failing(Messy):
        def apply_actions(self):
            raise KeyError("no such actuator")

    env, actor = Failing(), DropoutActor()
    before = env.fingerprint()
    with pytest.raises(KeyError, match="no such actuator"):
        export(env, actor, tmp_path)
    assert env.fingerprint() == before
    assert not list(tmp_path.iterdir())


def test_the_actor_is_exported_in_evaluation_mode(tmp_path: Path):
    env, actor = Messy(), DropoutActor()
    export(env, actor, tmp_path)
    operators = {node.op_type for node in onnx.load(tmp_path / "debug" / "policy_default.onnx").graph.node}
    assert "Dropout" not in operators and not any(name.startswith("Random") for name in operators)


def test_two_exports_in_a_row_give_the_same_file(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    env, actor = Messy(), DropoutActor()
    export(env, actor, tmp_path / "first")
    export(env, actor, tmp_path / "second")
    assert (tmp_path / "first/policy.onnx").read_bytes() == (tmp_path / "second/policy.onnx").read_bytes()


def test_export_evaluate_export_gives_the_same_graph_and_weights(tmp_path: Path):
    env, actor = Messy(), make_actor(3)
    session = export(env, actor, tmp_path / "first")
    evaluate(env, env.context_manager(), session, 7, verbose=False)
    export(env, actor, tmp_path / "second")
    first, second = (onnx.load(tmp_path / name / "policy.onnx").graph for name in ("first", "second"))
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)


def test_export_after_reading_inputs_keeps_them(tmp_path: Path):
    env, actor = Messy(), make_actor(3)
    env.context_manager().read_inputs()
    session = export(env, actor, tmp_path)
    assert session.input_names == ["ctx.step_count", "value", "memory.last.in", "memory.env_targets.in"]


def test_a_rebound_input_is_asked_for_again(tmp_path: Path):
    env, actor = Messy(), make_actor(3)
    env.context_manager().read_inputs()
    env.value = torch.full((1, 3), 7.0)
    session = export(env, actor, tmp_path)
    assert "value" in session.input_names


class StatefulActor(ExportableActor):
    """Has a hidden state that reset() clears."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cell = torch.nn.GRUCell(3, 2)
        self.hidden = torch.zeros(1, 2)

    def forward(self, obs):
        self.hidden = self.cell(obs, self.hidden)
        return self.hidden * 2

    def reset(self, dones):
        self.hidden = self.hidden.clone()
        self.hidden[dones] = 0.0

    def get_state(self):
        return (self.hidden,)


def test_an_actor_called_once_under_no_grad_keeps_its_hidden_state_and_starts_from_its_reset(tmp_path: Path):
    env, actor = Messy(), StatefulActor()
    with torch.no_grad():
        actor(torch.ones(1, 3))
    add_actor_memory(env.context_manager(), actor.get_state)
    hidden = actor.hidden
    session = export(env, actor, tmp_path)
    assert actor.hidden is hidden and hidden.abs().sum() > 0
    assert "memory.actor_state_0.in" in session.input_names
    assert session.contract is not None
    initial = {memory.name: memory.initial_value() for memory in session.contract.memories}
    assert not initial["actor_state_0"].any()


def test_other_memories_start_as_found_and_initial_memory_overrides(tmp_path: Path):
    env, actor = Messy(), StatefulActor()
    add_actor_memory(env.context_manager(), actor.get_state)
    env.last[:] = 3.0
    session = export(env, actor, tmp_path, initial_memory={"actor_state_0": torch.tensor([[4.0, 5.0]])})
    assert session.contract is not None
    memories = [memory for memory in session.contract.memories if not memory.carried]
    initial = {memory.name: memory.initial_value().tolist() for memory in memories}
    assert initial == {"last": [[3.0, 3.0, 3.0]], "actor_state_0": [[4.0, 5.0]]}


def test_tensors_beyond_the_reach_of_the_walk_are_restored(tmp_path: Path):
    hidden_away = torch.ones(1, 3)

    class Hidden:
        __slots__ = ()

        def __getattr__(self, name):
            return hidden_away

    class Opaque(Messy):
        def process_actions(self, actions):
            super().process_actions(actions)
            Hidden().tensor.add_(1.0)

    export(Opaque(), make_actor(3), tmp_path)
    assert torch.equal(hidden_away, torch.ones(1, 3))


@pytest.mark.parametrize(
    "write",
    [
        lambda tensor: tensor.add_(1.0),
        lambda tensor: torch.add(torch.ones(3), 1.0, out=tensor),
        lambda tensor: torch._foreach_add_([torch.zeros(2), tensor], 1.0),
        lambda tensor: torch.aminmax(torch.ones(3, 2), dim=1, out=(tensor, torch.zeros(3))),
        lambda tensor: torch.overrides.handle_torch_function(_write_all, (tensor,), {"here": [{"deep": tensor}]}),
    ],
    ids=["argument", "keyword", "list", "tuple", "dictionary in a list"],
)
def test_tensors_are_protected_wherever_they_stand_among_the_arguments_of_a_torch_function(write):
    unseen = torch.zeros(3)
    with Snapshot({}) as snapshot, ProtectUnseen(snapshot):
        write(unseen)
        assert unseen.any()
    assert not unseen.any()


def _write_all(places: dict[str, list[dict[str, torch.Tensor]]]) -> None:
    with torch._C.DisableTorchFunction():
        for place in places["here"]:
            place["deep"].add_(1.0)


def test_a_snapshot_restores_contents_bindings_and_containers():
    inner = SimpleNamespace(tensor=torch.zeros(3), array=np.zeros(2), items=[1], tags={1}, count=1, text="a")
    holder: dict[str, Any] = {"inner": inner, "parameter": torch.nn.Parameter(torch.ones(2))}
    tensor, array, items = inner.tensor, inner.array, inner.items
    with Snapshot({"holder": holder}) as snapshot:
        inner.tensor[:] = float("nan")
        inner.array[:] = 5
        inner.items.append(2)
        inner.tags.add(2)
        inner.count, inner.text = 2, "b"
        inner.tensor, inner.array, inner.items = torch.ones(1), np.ones(1), []
        inner.new = 1
        holder["parameter"].data = torch.zeros(4)
        holder["more"] = 1
        assert snapshot.changed_python_state() == ["holder['inner'].count: 1 -> 2", "holder['inner'].text: 'a' -> 'b'"]
    assert inner.tensor is tensor and torch.equal(tensor, torch.zeros(3))
    assert inner.array is array and not array.any()
    assert inner.items is items and items == [1] and inner.tags == {1}
    assert (inner.count, inner.text) == (1, "a") and not hasattr(inner, "new")
    assert torch.equal(holder["parameter"], torch.ones(2)) and "more" not in holder


class Leg(enum.Enum):
    LEFT = 1


class Unset:
    __slots__ = ("later",)
    later: int


def counting_closure():
    calls = 0

    def count() -> int:
        nonlocal calls
        calls += 1
        return calls

    return count


@functools.lru_cache
def cached_grid(size: int) -> torch.Tensor:
    return torch.arange(float(size))


class Scattered(Messy):
    """Keeps state in places that a walk over attributes may miss."""

    def __init__(self):
        super().__init__()
        self.by_enum = {Leg.LEFT: SimpleNamespace(count=0)}
        self.by_tuple = {("a", 0): SimpleNamespace(tensor=torch.zeros(1))}
        self.numbers = [0.5] * 300_000
        self.nested = SimpleNamespace(inner=None)
        for _ in range(30):
            self.nested = SimpleNamespace(inner=self.nested)
        self.deepest = self.nested
        while self.deepest.inner is not None:
            self.deepest = self.deepest.inner
        self.unset = Unset()
        self.ordered = {"a": 1, "b": 2}
        self.count = counting_closure()

    def observe(self):
        self.by_enum[Leg.LEFT].count += 1
        self.by_tuple["a", 0].tensor = torch.ones(1)
        self.deepest.mark = 1
        self.unset.later = 1
        self.ordered["a"] = self.ordered.pop("a")
        self.count()
        return super().observe() + cached_grid(3)


def test_state_in_odd_places_is_restored(tmp_path: Path):
    env = Scattered()
    tensor = env.by_tuple["a", 0].tensor
    export(env, make_actor(3), tmp_path)
    assert env.by_enum[Leg.LEFT].count == 0
    assert env.by_tuple["a", 0].tensor is tensor
    assert not hasattr(env.deepest, "mark") and not hasattr(env.unset, "later")
    assert list(env.ordered) == ["a", "b"]
    assert env.count() == 1


def test_caches_that_an_export_fills_can_be_trained_through(tmp_path: Path):
    cached_grid.cache_clear()
    export(Scattered(), make_actor(3), tmp_path)
    weight = torch.ones(3, requires_grad=True)
    (weight * cached_grid(3)).sum().backward()
    assert weight.grad is not None


def test_exports_in_several_threads_take_turns(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # torch.compile disables it
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    actor = make_actor(3)

    def run(index: int) -> Path:
        return export(Messy(), actor, tmp_path / str(index)).onnx_file_path

    with ThreadPoolExecutor(3) as pool:
        paths = list(pool.map(run, range(3)))
    assert len({path.read_bytes() for path in paths}) == 1
    assert torch.distributions.Distribution._validate_args
    assert torch.backends.mha.get_fastpath_enabled()


def test_an_object_that_had_no_attributes_has_none_afterwards(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")

    class Holder:
        scale: torch.Tensor

    class Lazy(TestEnvironment):
        num_observations = 2

        def __init__(self):
            super().__init__()
            self.value, self.holder = torch.zeros(1, 2), Holder()
            self.context_manager().add_component(Input("value", lambda: self.value))

        def observe(self):
            if not hasattr(self.holder, "scale"):
                self.holder.scale = torch.full((2,), 2.0)
            return self.value * self.holder.scale

        def move(self):
            self.value = self.value + 0.1

    env, actor = Lazy(), make_actor(2)
    export(env, actor, tmp_path)
    assert not vars(env.holder)
    first = (tmp_path / "policy.onnx").read_bytes()
    export(env, actor, tmp_path)
    assert (tmp_path / "policy.onnx").read_bytes() == first
