"""Moves an environment through steps and resets, and notes which elements of tensors each of them changes."""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from exploy.capture.program import FrozenTensor
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.environment.exportable_environment import has_reset
from exploy.environment.observations import observation_arrays
from exploy.live.roots import live_objects
from exploy.verify.frozen_watch import as_array, live_value

RESETS = 4
_STEPS_AFTER_A_RESET = 3
_SECONDS_TO_WAIT = 10.0  # for a reset, if the environment does not implement reset()
_PUSH = 1e-3  # of a value and one, so small that no simulator minds
_AFTEREFFECT = 2  # the step that resets, and the one after it, show what a reset has drawn


@dataclass
class Movement:
    """What was seen of some tensors, by name.

    Attributes:
        by_steps: Flags for the elements that a step has changed, other than right after a reset.
        by_resets: Flags for the elements that a reset has changed.
        rewritten: Tensors that steps write or replace, though never with another value.
        history: A number for each value that was seen, to find tensors that always have the same value.
        unlike_actions: Tensors that had other values than the actions of the last step.
        observations: Flags for the elements of observations that steps change, by port.
        steps: Number of policy steps.
        resets: Number of resets.
        error: What the environment raised, if it did.
    """

    by_steps: dict[str, np.ndarray] = field(default_factory=dict)
    by_resets: dict[str, np.ndarray] = field(default_factory=dict)
    rewritten: set[str] = field(default_factory=set)
    history: dict[str, list[int]] = field(default_factory=dict)
    unlike_actions: set[str] = field(default_factory=set)
    observations: dict[str, np.ndarray] = field(default_factory=dict)
    steps: int = 0
    resets: int = 0
    error: Exception | None = None

    def moved(self, name: str) -> bool:
        """Whether anything has changed a tensor."""
        return name in self.by_steps or name in self.by_resets

    def keeps_actions(self, name: str) -> bool:
        """Whether a tensor that steps change had the actions of each step after it, but for resets."""
        return name in self.by_steps and name not in self.unlike_actions

    def always_equal(self, one: str, two: str) -> bool:
        """Whether two tensors had the same value at each look."""
        return one in self.history and self.history[one] == self.history.get(two)


def watch_movement(experiments: Experiments, frozen: Sequence[FrozenTensor], steps: int, within: int) -> Movement:
    """Step and reset the environment in a trial, so that it is as before at the end, but for the simulator's own state.

    Args:
        experiments: The environment and its actor.
        frozen: The tensors to watch.
        steps: Number of policy steps before the first reset.
        within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`.
    """
    watch = _Watch(experiments, frozen)
    observations = experiments.observations
    with experiments.trial():
        try:
            watch.move(steps, within)
        except Exception as error:
            watch.movement.error = error
    if watch.movement.error is None:
        with experiments.trial(), contextlib.suppress(Exception):  # other values may not be valid
            watch.push()
    experiments.observations = observations
    return watch.movement


@dataclass(frozen=True)
class _Seen:
    value: np.ndarray
    place: tuple[int, int]


class _Watch:
    def __init__(self, experiments: Experiments, frozen: Sequence[FrozenTensor]):
        self.movement = Movement()
        self._experiments = experiments
        self._frozen = [item for item in frozen if item.live is None]
        self._observed: dict[str, np.ndarray] = {}
        self._after_reset = 0

    def move(self, steps: int, within: int) -> None:
        seen = self._step(self._look({}), steps)
        if has_reset(self._experiments.env):
            for _ in range(RESETS):
                self._reset()
                seen = self._step(self._look(seen), _STEPS_AFTER_A_RESET)
            return
        end = time.monotonic() + _SECONDS_TO_WAIT
        while self.movement.resets < RESETS and self.movement.steps < within and time.monotonic() < end:
            seen = self._step(seen, 1)

    def push(self) -> None:
        """Give tensors that nothing has moved other values, and see whether a step or a reset writes them."""
        pushed = {frozen.name: value for frozen in self._frozen if (value := self._pushed(frozen)) is not None}
        self._experiments.step()
        self._note_overwritten(pushed)
        if has_reset(self._experiments.env):
            self._experiments.env.reset()
            self._note_overwritten(pushed)

    def _pushed(self, frozen: FrozenTensor) -> np.ndarray | None:
        """The values that a tensor was given, a little off its own; None if it was left alone."""
        live = live_value(frozen, live_objects(self._experiments.env, self._experiments.actor))
        array = as_array(live)
        if array is None or array.dtype.kind != "f" or self.movement.moved(frozen.name):
            return None
        value: np.ndarray = (array + _PUSH * (1 + np.abs(array))).astype(array.dtype)
        try:
            if isinstance(live, torch.Tensor):
                live.copy_(torch.from_numpy(value))
            elif isinstance(live, np.ndarray):
                live[...] = value
        except (RuntimeError, ValueError):  # for example a read-only array
            return None
        return value

    def _note_overwritten(self, pushed: dict[str, np.ndarray]) -> None:
        roots = live_objects(self._experiments.env, self._experiments.actor)
        for frozen in self._frozen:
            array = as_array(live_value(frozen, roots)) if frozen.name in pushed else None
            if array is not None and _changed(pushed[frozen.name], array).any():
                self.movement.rewritten.add(frozen.name)

    def _step(self, seen: dict[str, _Seen], steps: int) -> dict[str, _Seen]:
        for _ in range(steps):
            if self._experiments.step():
                self.movement.resets += 1
                self._after_reset = _AFTEREFFECT
                self._reset_actor()
            self.movement.steps += 1
            self._look_at_observations()
            if not self._after_reset:
                self._compare_with_actions()
            seen = self._look(seen)
        return seen

    def _reset(self) -> None:
        self._experiments.env.reset()
        self._reset_actor()
        self._experiments.observations = None
        self.movement.resets += 1
        self._after_reset = _AFTEREFFECT

    def _reset_actor(self) -> None:
        actions = self._experiments.env.empty_actions()
        self._experiments.actor.reset(torch.ones(actions.shape[0], dtype=torch.bool, device=actions.device))

    def _look_at_observations(self) -> None:
        now = observation_arrays(self._experiments.observations)
        if not self._after_reset:
            for name in now.keys() & self._observed.keys():
                changed = _changed(self._observed[name], now[name])
                known = self.movement.observations.get(name)
                self.movement.observations[name] = changed if known is None else known | changed
        self._observed = now

    def _compare_with_actions(self) -> None:
        roots = live_objects(self._experiments.env, self._experiments.actor)
        actions = as_array(self._experiments.actions)
        for frozen in self._frozen:
            array = as_array(live_value(frozen, roots))
            if array is None or actions is None or not np.array_equal(array.reshape(-1), actions.reshape(-1)):
                self.movement.unlike_actions.add(frozen.name)

    def _look(self, before: dict[str, _Seen]) -> dict[str, _Seen]:
        """Compare all tensors with the values of the last look, and return those of now."""
        roots = live_objects(self._experiments.env, self._experiments.actor)
        noted = self.movement.by_resets if self._after_reset else self.movement.by_steps
        now: dict[str, _Seen] = {}
        for frozen in self._frozen:
            live = live_value(frozen, roots)
            array = as_array(live)
            if array is None:
                continue
            seen = now[frozen.name] = _Seen(array.copy(), _place(live))
            self.movement.history.setdefault(frozen.name, []).append(hash((array.shape, array.tobytes())))
            last = before.get(frozen.name)
            if last is None:
                continue
            changed = _changed(last.value, seen.value)
            if changed.any():
                noted[frozen.name] = noted[frozen.name] | changed if frozen.name in noted else changed
                self.movement.rewritten.discard(frozen.name)
            elif seen.place != last.place and not self.movement.moved(frozen.name):
                self.movement.rewritten.add(frozen.name)
        self._after_reset = max(self._after_reset - 1, 0)
        return now


def _place(live: object) -> tuple[int, int]:
    """Where a tensor or array is, and how often a tensor was written."""
    if isinstance(live, np.ndarray):
        return live.__array_interface__["data"][0], 0
    if not isinstance(live, torch.Tensor):
        return 0, 0
    return live.data_ptr(), 0 if live.is_inference() else live._version


def _changed(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Flags for the elements that differ; all if the shapes do. Equal NaNs are equal."""
    if one.shape != two.shape:
        return np.ones(two.size, dtype=bool)
    different = one != two
    if one.dtype.kind in "fc":
        different &= (one == one) | (two == two)
    return np.asarray(different).reshape(-1)
