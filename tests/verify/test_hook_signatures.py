"""Hooks are given to an environment as its `register_evaluation_hooks()` takes them."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import PendulumEnv

import exploy
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from tests.support.environments import TestEnvironment, export, make_actor

Hook = Callable[..., None]


def ignore(*_: object) -> None:
    """Stand in for a hook that was not given."""


class Inlined(TestEnvironment):
    """A PD law whose `step()` shares no function with the stages: only hooks show what happens in it."""

    num_observations = 4
    has_reset_hook = True

    def __init__(self) -> None:
        super().__init__(decimation=3, reset_every=7)
        self.position = torch.tensor([[0.1, 0.2]])
        self.torque = torch.zeros(1, 2)
        self.last = torch.zeros(1, 2)
        self.context_manager().add_components(
            [
                Input("position", lambda: self.position),
                Output("torque", lambda: self.torque),
                Memory("last", lambda: self.last),
            ]
        )

    def keep(self, update: Hook | None, reset: Hook | None, evaluate_substep: Hook | None) -> None:
        self._hooks = (update or ignore, reset or ignore, evaluate_substep or ignore)

    def observe(self):
        return torch.cat([self.position, self.last], -1)

    def process_actions(self, actions):
        self.targets[:] = 0.5 * actions
        self.last[:] = actions

    def apply_actions(self):
        self.torque[:] = 4.0 * (self.targets - self.position)

    def step(self, actions):
        update, reset, evaluate_substep = self._hooks
        targets = 0.5 * actions
        self.last.copy_(actions)
        for sub_step in range(3):
            torch.mul(targets - self.position, 4.0, out=self.torque)
            evaluate_substep(sub_step)
            self.position.add_(self.torque, alpha=0.02)
        self._steps += 1
        done = self._steps % 7 == 0
        if done:
            self.position.fill_(0.3)
            self.last.zero_()
            reset()
        update()
        return torch.cat([self.position, self.last], -1), done


class Pendulum(Inlined):
    """Around a class of gymnasium, whose state is copied into tensors after each of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.pendulum = PendulumEnv()
        self.pendulum.reset(seed=0)
        self.look()

    def look(self) -> None:
        self.position.copy_(torch.from_numpy(np.array(self.pendulum.state, np.float32)))

    def step(self, actions):
        update, reset, evaluate_substep = self._hooks
        targets = 0.5 * actions
        self.last.copy_(actions)
        for sub_step in range(3):
            torch.mul(targets - self.position, 4.0, out=self.torque)
            evaluate_substep(sub_step)
            self.pendulum.step(self.torque[0, :1].numpy())
            self.look()
        self._steps += 1
        done = self._steps % 7 == 0
        if done:
            self.pendulum.reset()
            self.look()
            self.last.zero_()
            reset()
        update()
        return torch.cat([self.position, self.last], -1), done

    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        self.keep(update, reset, evaluate_substep)


class PendulumWithoutReset(Pendulum):
    has_reset_hook = False

    def register_evaluation_hooks(self, update, evaluate_substep):  # type: ignore[override]
        self.keep(update, None, evaluate_substep)


class Documented(Inlined):
    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        self.keep(update, reset, evaluate_substep)


class OtherNames(Inlined):
    def register_evaluation_hooks(self, on_state, on_reset, on_sub_step):
        self.keep(on_state, on_reset, on_sub_step)


class WithDefaults(Inlined):
    def register_evaluation_hooks(self, update=None, reset=None, evaluate_substep=None):
        self.keep(update, reset, evaluate_substep)


class WithOneMore(Inlined):
    def register_evaluation_hooks(self, update, reset, evaluate_substep, verbose=False):
        assert verbose is False
        self.keep(update, reset, evaluate_substep)


class AnyNumber(Inlined):
    def register_evaluation_hooks(self, *hooks):
        update, reset, evaluate_substep = hooks
        self.keep(update, reset, evaluate_substep)


class Static(Inlined):
    """The method is a function that is stored in the instance."""

    def __init__(self) -> None:
        super().__init__()
        self.register_evaluation_hooks = self.keep  # type: ignore[method-assign]


class Partial(Inlined):
    """The method is a functools.partial with one argument given already."""

    def __init__(self) -> None:
        super().__init__()
        self.register_evaluation_hooks = functools.partial(self.keep_with, "label")  # type: ignore[method-assign]

    def keep_with(self, label: str, update: Hook, reset: Hook, evaluate_substep: Hook) -> None:
        assert label == "label"
        self.keep(update, reset, evaluate_substep)


def logged(method: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(method)
    def wrapper(self: Any, *args: Any) -> None:
        method(self, *args)

    return wrapper


class Decorated(Inlined):
    @logged
    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        self.keep(update, reset, evaluate_substep)


class WithoutReset(Inlined):
    has_reset_hook = False

    def register_evaluation_hooks(self, update, evaluate_substep):  # type: ignore[override]
        self.keep(update, None, evaluate_substep)


class WithoutResetOtherNames(Inlined):
    has_reset_hook = False

    def register_evaluation_hooks(self, on_state, on_sub_step):  # type: ignore[override]
        self.keep(on_state, None, on_sub_step)


class WithoutResetWithDefaults(Inlined):
    has_reset_hook = False

    def register_evaluation_hooks(self, update=None, evaluate_substep=None):  # type: ignore[override]
        self.keep(update, None, evaluate_substep)


class WithoutResetPartial(Inlined):
    has_reset_hook = False

    def __init__(self) -> None:
        super().__init__()
        self.register_evaluation_hooks = functools.partial(self.keep_with, "label")  # type: ignore[method-assign]

    def keep_with(self, label: str, update: Hook, evaluate_substep: Hook) -> None:
        assert label == "label"
        self.keep(update, None, evaluate_substep)


class WithoutResetDecorated(Inlined):
    has_reset_hook = False

    @logged
    def register_evaluation_hooks(self, update, evaluate_substep):
        self.keep(update, None, evaluate_substep)


class KeywordOnly(Inlined):
    def register_evaluation_hooks(self, *, update, reset, evaluate_substep):  # type: ignore[override]
        self.keep(update, reset, evaluate_substep)


class LastByKeyword(Inlined):
    def register_evaluation_hooks(self, update, reset, *, evaluate_substep):  # type: ignore[override]
        self.keep(update, reset, evaluate_substep)


class OtherOrder(Inlined):
    def register_evaluation_hooks(self, update, evaluate_substep, reset=None):  # type: ignore[override]
        self.keep(update, reset, evaluate_substep)


class AnyArguments(Inlined):
    def register_evaluation_hooks(self, *args, **kwargs):
        self.keep(*args, **kwargs)


class AnyKeywords(Inlined):
    def register_evaluation_hooks(self, **hooks):  # type: ignore[override]
        self.keep(**hooks)


class WithoutResetKeywordOnly(Inlined):
    has_reset_hook = False

    def register_evaluation_hooks(self, *, update, evaluate_substep):  # type: ignore[override]
        self.keep(update, None, evaluate_substep)


class WithoutResetAndAFlag(Inlined):
    has_reset_hook = False

    def register_evaluation_hooks(self, on_state, on_sub_step, verbose=False):
        assert verbose is False
        self.keep(on_state, None, on_sub_step)


class WithoutResetAnyKeywords(Inlined):
    has_reset_hook = False

    def register_evaluation_hooks(self, update, evaluate_substep, **more):  # type: ignore[override]
        self.keep(update, None, evaluate_substep)


class NoHooks(Inlined):
    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        pass


SIGNATURES = pytest.mark.parametrize(
    "kind",
    [
        Documented, OtherNames, WithDefaults, WithOneMore, AnyNumber, Static, Partial, Decorated,
        WithoutReset, WithoutResetOtherNames, WithoutResetWithDefaults, WithoutResetPartial, WithoutResetDecorated,
        KeywordOnly, LastByKeyword, OtherOrder, AnyArguments, AnyKeywords,
        WithoutResetKeywordOnly, WithoutResetAndAFlag, WithoutResetAnyKeywords,
        Pendulum, PendulumWithoutReset,
    ],
)  # fmt: skip


def run(env: Inlined, folder: Path, before: Callable[[], object] = lambda: None) -> bool:
    env.last.zero_()
    session = export(env, make_actor(4), folder, initial_memory={"last": torch.zeros(1, 2)})
    before()
    return evaluate(env, env.context_manager(), session, 20, verbose=True, pause_on_failure=False)[0]


@pytest.mark.matrix(4)
@SIGNATURES
def test_each_hook_gets_to_its_place(kind, tmp_path: Path):
    assert run(kind(), tmp_path)


@pytest.mark.matrix
@SIGNATURES
def test_by_them_a_fault_at_a_sub_step_is_found(kind, tmp_path: Path, capsys):
    class Faulty(kind):
        """Its steps clear the torque at the second of three sub-steps."""

        def keep(self, update, reset, evaluate_substep):
            def clear_and_evaluate(sub_step: int) -> None:
                if sub_step == 1:
                    self.torque.zero_()
                evaluate_substep(sub_step)

            super().keep(update, reset, clear_and_evaluate)

    assert not run(Faulty(), tmp_path)
    assert "step 0, sub-step 1" in " ".join(capsys.readouterr().out.split())


@pytest.mark.matrix
@SIGNATURES
def test_the_hook_for_resets_is_given_where_it_is_taken(kind, tmp_path: Path):
    env = kind()
    given = []
    keep = env.keep

    def noting_keep(update: Hook, reset: Hook | None, evaluate_substep: Hook) -> None:
        given.append(reset is not None)
        keep(update, reset, evaluate_substep)

    env.keep = noting_keep
    if isinstance(env, Static):
        env.register_evaluation_hooks = noting_keep  # type: ignore[method-assign]
    assert run(env, tmp_path)
    assert given and set(given) == {env.has_reset_hook}


@pytest.mark.matrix
@SIGNATURES
def test_afterwards_hooks_that_do_nothing_take_their_place(kind, tmp_path: Path, monkeypatch):
    env = kind()
    assert run(env, tmp_path)
    monkeypatch.setattr(Input, "fetch", lambda self: pytest.fail("the environment is still observed"))
    for _ in range(7):
        env.step(torch.zeros(1, 2))


def test_an_environment_that_calls_none_of_them_is_not_compared_at_sub_steps(tmp_path: Path, capsys):
    assert not run(NoHooks(), tmp_path)
    assert "incomplete" in capsys.readouterr().out


def test_a_strict_export_of_such_an_environment_is_not_said_to_agree(tmp_path: Path):
    verification = exploy.export(NoHooks(), make_actor(4), tmp_path / "policy.onnx").verification
    assert verification.verdict == "incomplete" and verification.not_compared
    allowed = verification.not_compared
    again = exploy.export(NoHooks(), make_actor(4), tmp_path / "policy.onnx", allow_uncompared=allowed)
    assert again.verification.verdict == "agrees"


def test_a_fault_at_a_sub_step_of_a_class_of_gymnasium_is_found(tmp_path: Path, capsys):
    class Clearing(PendulumWithoutReset):
        def keep(self, update, reset, evaluate_substep):
            def clear_and_evaluate(sub_step: int) -> None:
                self.torque.mul_(0.0 if sub_step == 2 else 1.0)
                evaluate_substep(sub_step)

            super().keep(update, reset, clear_and_evaluate)

    assert not run(Clearing(), tmp_path)
    assert "step 0, sub-step 2" in " ".join(capsys.readouterr().out.split())
