"""Traced values must not leave torch, because their result would be a constant in the file.

`test_ways_out_of_torch.py` has all ways that one expression can take.
"""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import exploy
from exploy.errors import CaptureError, DataDependentError
from exploy.exporter.core.components import Input, Output
from tests.support.checking import check
from tests.support.environments import TestEnvironment, assert_agrees, export, make_actor


class Observing(TestEnvironment):
    """Observes its state with a function from a test."""

    num_observations = 2

    def __init__(self, function: Callable[["Observing"], torch.Tensor]):
        super().__init__()
        self.function = function
        self.state = torch.tensor([[0.5, -0.5]])
        self.settings = torch.tensor([[2.0, 3.0]])
        self.enabled = torch.tensor(True)
        self.scratch = torch.zeros(1, 2)
        self.context_manager().add_components(
            [Input("state", lambda: self.state), Output("targets", lambda: self.targets)]
        )

    def observe(self):
        return self.function(self)

    def move(self):
        self.state += self.noise(self.state)


def branch(env: Observing) -> torch.Tensor:
    return env.state if env.state.sum() > 0 else -env.state


def written_then_read(env: Observing) -> torch.Tensor:
    env.scratch[:] = env.state
    return env.settings * env.scratch[0, 0].item()


def printed(env: Observing) -> torch.Tensor:
    text = io.StringIO()
    print(env.state[0, 0], file=text)
    return env.settings * float(text.getvalue()[7:-2])


def saved(env: Observing) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(env.state, file)
    file.seek(0)
    loaded: torch.Tensor = torch.load(file)
    return loaded


ESCAPES: dict[str, Callable[[Observing], torch.Tensor]] = {
    "an if": branch,
    "a buffer that was written from an input": written_then_read,
    "print": printed,
    "torch.save": saved,
    "one value per true element of a mask": lambda env: env.settings.clone().index_put((env.state > -9,), env.state[0]),
}


@pytest.mark.parametrize("function", ESCAPES.values(), ids=ESCAPES.keys())
def test_refuses_with_file_and_line(function, tmp_path: Path):
    env = Observing(function)
    before = env.state.clone()
    with pytest.raises(DataDependentError) as caught:
        export(env, make_actor(2), tmp_path)
    assert f"{Path(__file__).name}:" in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert torch.equal(env.state, before)
    assert torch.equal(env.scratch, torch.zeros(1, 2))


def printing(env: Observing) -> torch.Tensor:
    assert f"{env.settings}".startswith("tensor(") and repr(env.settings[0, 0]).startswith("tensor(")
    return env.state * 2


CONSTANTS: dict[str, Callable[[Observing], torch.Tensor]] = {
    "a flag kept in a buffer": lambda env: env.state * 2 if env.enabled else env.state,
    "a setting": lambda env: env.state * env.settings[0, 0].item(),
    "a computed setting": lambda env: env.state * float((env.settings * 2).sum()),
    "settings as numpy": lambda env: env.state * torch.from_numpy(env.settings.numpy() * 2),
    "settings as a list": lambda env: env.state * torch.tensor(env.settings.tolist()),
    "a constant mask": lambda env: env.state + env.settings[env.settings > 2.5].sum(),
    "a constant mask over an input": lambda env: torch.cat([env.state[env.settings > 2.5], env.state[0, :1]])[None],
    "printing": printing,
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("function", CONSTANTS.values(), ids=CONSTANTS.keys())
def test_constants_may_be_read_by_python(function, tmp_path: Path):
    assert_agrees(Observing(function), make_actor(2), tmp_path, steps=5)


READS = {name: function for name, function in CONSTANTS.items() if name not in ("printing", "a flag kept in a buffer")}


@pytest.mark.matrix
@pytest.mark.parametrize("function", READS.values(), ids=READS.keys())
def test_constants_that_python_reads_are_frozen_and_named_when_they_change(function, tmp_path: Path):
    class Changing(Observing):
        def move(self):
            super().move()
            self.settings[0, 0] *= 0.999

    sound, changing = Observing(function), Changing(function)
    session = export(sound, make_actor(2), tmp_path)
    assert session.contract is not None
    assert "env.settings" in [frozen.name for frozen in session.contract.frozen]
    assert check(sound, make_actor(2)).ok
    errors = check(changing, make_actor(2)).errors
    assert [(item.kind, item.tensor.partition("[")[0]) for item in errors] == [
        (exploy.FindingKind.UNREGISTERED_INPUT, "env.settings")
    ]
    assert Path(__file__).name in errors[0].where


def test_only_the_elements_that_python_reads_are_frozen():
    class OtherElement(Observing):
        def move(self):
            super().move()
            self.settings[0, 1] += 0.1

    assert check(OtherElement(CONSTANTS["a setting"]), make_actor(2)).ok


def test_lists_of_traced_values_are_followed(tmp_path: Path):
    def swapped(env: Observing) -> torch.Tensor:
        return torch.tensor([[env.state[0, 1], env.state[0, 0]]])

    session = assert_agrees(Observing(swapped), make_actor(2), tmp_path, steps=5)
    assert "state" in session.input_names


LOGS: dict[str, Callable[["Logging"], object]] = {
    "printed": lambda env: print(f"settings: {env.settings}"),
    "logged": lambda env: env.log.append(env.settings[0, 0].item()),
    "compared": lambda env: env.log.append("large") if env.settings.sum() > 9 else None,
}


class Logging(Observing):
    """Reads a tensor that changes, for a log alone; or, as `matters`, for the observations."""

    def __init__(self, log: Callable[["Logging"], object], matters: bool):
        super().__init__(lambda env: env.state)
        self.log: list[object] = []
        self._to_log = log
        self._matters = matters

    def observe(self):
        self._to_log(self)
        return self.state * 2 if self._matters and self.settings[0, 0] > 2.2 else self.state

    def move(self):
        super().move()
        self.settings[0, 0] += 0.01


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS.keys())
def test_a_changing_tensor_that_is_only_logged_is_not_accused(log):
    assert check(Logging(log, matters=False), make_actor(2)).ok


def test_a_changing_tensor_that_is_logged_and_decides_a_branch_is_named():
    errors = check(Logging(LOGS["logged"], matters=True), make_actor(2)).errors
    assert [item.tensor for item in errors] == ["env.settings"]


def through_a_capsule(env: Observing) -> torch.Tensor:
    return torch.utils.dlpack.from_dlpack(torch._C._to_dlpack(env.state))


def test_memory_that_comes_back_through_a_dlpack_capsule_is_still_the_input(tmp_path: Path):
    assert_agrees(Observing(lambda env: through_a_capsule(env) * 2), make_actor(2), tmp_path, steps=5)


def test_values_that_left_through_a_dlpack_capsule_are_still_guarded(tmp_path: Path):
    with pytest.raises(DataDependentError, match="numpy"):
        export(Observing(lambda env: torch.from_numpy(through_a_capsule(env).numpy() * 2)), make_actor(2), tmp_path)


def test_distributions_may_check_their_arguments(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)  # torch.compile disables it

    def mean_of_normal(env: Observing) -> torch.Tensor:
        return torch.distributions.Normal(env.state, env.settings).mean + 1.0

    assert_agrees(Observing(mean_of_normal), make_actor(2), tmp_path, steps=5)
    assert torch.distributions.Distribution._validate_args


def test_different_sub_steps_are_refused(tmp_path: Path):
    class Alternating(Observing):
        calls = 0

        def apply_actions(self):
            self.calls += 1
            if self.calls % 2:
                self.targets += self.state

    with pytest.raises(CaptureError, match="different things in two consecutive sub-steps"):
        export(Alternating(lambda env: env.state), make_actor(2), tmp_path)
