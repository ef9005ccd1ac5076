"""State of modules that torch.jit compiled: it is named, registered and restored like that of other modules."""

import io
from pathlib import Path

import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.errors import InferredMemoryWarning
from tests.diagnosis import test_faults
from tests.support.checking import check
from tests.support.environments import assert_agrees, make_actor
from tests.support.pasting import paste


class Robot(test_faults.Robot):
    """A robot that leaves the state of the actor to `actor.reset()`."""

    def restart_memories(self) -> None:
        pass


class RecurrentPolicy(torch.nn.Module):
    """A policy as legged_gym exports it: an LSTM whose states are buffers that `forward()` writes in place."""

    hidden_state: torch.Tensor
    cell_state: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.memory = torch.nn.LSTM(4, 8)
        self.actor = torch.nn.Linear(8, 2)
        self.register_buffer("hidden_state", torch.zeros(1, 1, 8))
        self.register_buffer("cell_state", torch.zeros(1, 1, 8))

    def forward(self, x):
        out, (h, c) = self.memory(x.unsqueeze(0), (self.hidden_state, self.cell_state))
        self.hidden_state[:] = h
        self.cell_state[:] = c
        return self.actor(out.squeeze(0))

    @torch.jit.export
    def reset(self, dones: torch.Tensor) -> None:
        self.hidden_state[:] = 0.0
        self.cell_state[:] = 0.0


class Filter(torch.nn.Module):
    """A filter that replaces its state, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.state = torch.zeros(1, 2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.state = 0.5 * self.state + self.linear(x)
        return self.state * 1.0

    @torch.jit.export
    def reset(self, dones: torch.Tensor) -> None:
        self.state = torch.zeros(1, 2)


class Delay(torch.nn.Module):
    """Keeps the last actions in a list."""

    last: list[torch.Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.last = [torch.zeros(1, 2), torch.zeros(1, 2)]

    def forward(self, x):
        self.last = [self.last[1], self.linear(x)]
        return self.last[0] + self.last[1]

    @torch.jit.export
    def reset(self, dones: torch.Tensor) -> None:
        self.last = [torch.zeros(1, 2), torch.zeros(1, 2)]


class Normalized(torch.nn.Module):
    """Buffers that are read and never written."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.register_buffer("mean", torch.ones(4))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x - self.mean)


def loaded(module: torch.nn.Module) -> torch.jit.ScriptModule:
    """The module, saved and loaded as on a robot."""
    data = io.BytesIO()
    torch.jit.save(torch.jit.script(module), data)
    data.seek(0)
    return torch.jit.load(data)


class Wrapped(torch.nn.Module):
    """A trainer's player, which holds the compiled policy."""

    def __init__(self) -> None:
        super().__init__()
        self.player = torch.nn.ModuleDict({"policy": torch.jit.script(Filter())})

    def forward(self, obs):
        return self.player["policy"](obs)

    def reset(self, dones):
        self.player["policy"].reset(dones)  # type: ignore[operator]


ACTORS = {
    "loaded": (lambda: loaded(RecurrentPolicy()), ["actor.hidden_state", "actor.cell_state"]),
    "in a wrapper": (Wrapped, ["actor.player['policy'].state"]),
    "in a list": (lambda: torch.jit.script(Delay()), ["actor.last[1]"]),
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", ACTORS)
def test_the_state_of_a_compiled_policy_is_named_and_its_lines_mend_it(name, tmp_path: Path):
    make, attr_paths = ACTORS[name]
    env, actor = Robot(), make()
    diagnosis = check(env, actor)
    assert [item.tensor for item in diagnosis.errors] == attr_paths, diagnosis
    assert all(item.kind is FindingKind.MISSING_MEMORY for item in diagnosis.errors)
    assert all("test_scripted_modules.py" in item.where for item in diagnosis.errors), diagnosis
    paste(diagnosis, env, actor)
    assert check(env, actor).ok
    assert_agrees(env, actor, tmp_path, steps=40)


@pytest.mark.matrix
@pytest.mark.parametrize("name", ACTORS)
def test_the_state_of_a_compiled_policy_is_inferred(name, tmp_path: Path):
    make, attr_paths = ACTORS[name]
    env, actor = Robot(), make()
    with pytest.warns(InferredMemoryWarning) as warned:
        assert_agrees(env, actor, tmp_path, steps=40, infer_memory=True)
    assert all(f"({attr_path})" in str(warned[0].message) for attr_path in attr_paths)


def test_the_line_that_reads_the_state_of_a_loaded_policy_is_told():
    (first, _) = check(Robot(), loaded(RecurrentPolicy())).errors
    line = (
        Path(__file__)
        .read_text()
        .splitlines()
        .index("        out, (h, c) = self.memory(x.unsqueeze(0), (self.hidden_state, self.cell_state))")
    )
    assert first.where == f"{__file__}:{line + 1} (in forward)"


@pytest.mark.parametrize(
    "make", [lambda: loaded(Normalized()), lambda: torch.jit.trace(make_actor(4), torch.ones(1, 4))]
)
def test_a_compiled_policy_without_state_is_not_accused(make):
    diagnosis = check(Robot(), make())
    assert diagnosis.ok and not diagnosis.suggestions, diagnosis


def test_an_export_restores_the_attributes_of_a_compiled_policy(tmp_path: Path):
    actor = torch.jit.script(Filter())
    actor(torch.ones(1, 4))
    state, value = actor.state, actor.state.clone()
    exploy.export(
        Robot(), actor, tmp_path / "policy.onnx", strict=False, verify_environment=False, initial_memory="found"
    )
    assert actor.calls == 1
    assert actor.state is state and torch.equal(actor.state, value)
