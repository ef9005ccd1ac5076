"""Runs the pipeline of a live environment in trials; all changes of a trial are undone."""

import ast
import collections
import contextlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch

from exploy.capture.program import ACTIONS, FrozenTensor
from exploy.capture.recording import plain_torch
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Input
from exploy.environment.exportable_environment import ExportableEnvironment, Observations
from exploy.environment.observations import observation_arrays, step_environment, validated_observations
from exploy.environment.stages import Stages
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import ActorError
from exploy.live.gradient_mode import gradient_mode_of
from exploy.live.object_graph import (
    actual_key,
    class_holding,
    instance_dict,
    parsed_key,
    resolve_in,
    slots_of,
    state_of,
)
from exploy.live.roots import live_objects
from exploy.live.scripted_modules import set_script_attribute
from exploy.live.snapshot import ProtectUnseen, Snapshot
from exploy.verify.frozen_watch import FrozenWatch, live_value
from exploy.verify.step_functions import StepFunctions, find_step_functions

Results = list[dict[str, np.ndarray]]

_SUB_STEPS = 2


class Experiments:
    """The live environment and its actor, with trials that start from their current state.

    Args:
        env: The environment.
        actor: The actor, in evaluation mode.
    """

    def __init__(self, env: ExportableEnvironment, actor: ExportableActor):
        self.env = env
        self.actor = actor
        self.stages = Stages(env, actor)
        self.observations: Observations | None = None
        self.actions: torch.Tensor | None = None  # of the last real step
        self._snapshot: Snapshot | None = None

    @property
    def roots(self) -> dict[str, object]:
        """The live objects, by the first name of their paths."""
        return live_objects(self.env, self.actor)

    @cached_property
    def step_functions(self) -> StepFunctions:
        """The functions by which the environment steps, as they were found first."""
        return find_step_functions(self.env, self.actor)

    def resolve(self, attr_path: str) -> Any:
        """The current object at a path; None if the path does not exist."""
        return resolve_in(self.roots, attr_path)

    def has(self, attr_path: str) -> bool:
        """Whether an attribute or item exists at a path, even if it is None."""
        holder, key = split_attr_path(attr_path)
        owner = self.resolve(holder)
        return key in (owner if isinstance(owner, dict) else state_of(owner)) or isinstance(
            owner, list | tuple | collections.deque
        )

    def fetch(self, component: Input) -> torch.Tensor | None:
        """The tensor of an Input or Memory; None if the actor dropped its state at a reset."""
        try:
            return component.fetch()
        except ActorError:
            return None

    def live(self, frozen: FrozenTensor) -> Any:
        """The current tensor or array of a frozen tensor; None if its path no longer exists."""
        return live_value(frozen, self.roots)

    def has_changed(self, frozen: FrozenTensor) -> bool:
        """Whether the current value of a tensor differs from the value in the program."""
        return any(True for _ in FrozenWatch(self.env, self.actor, [frozen]).changes())

    @contextlib.contextmanager
    def trial(self, protect_unseen: bool = True) -> Iterator[Snapshot]:
        """Undo all changes of the block at its end, and at each `restore()` of the snapshot.

        A nested trial restores the state in which the outer trial started.

        Args:
            protect_unseen: Protect tensors that no path leads to; slow. Without it, `Snapshot.protect()` must be
                called for them.
        """
        if self._snapshot is not None:
            try:
                yield self._snapshot
            finally:
                self._snapshot.restore()
            return
        snapshot = self._snapshot = Snapshot(self.roots)
        try:
            protection = ProtectUnseen(snapshot) if protect_unseen else contextlib.nullcontext()
            with snapshot, plain_torch(), protection, snapshot.gradient_mode():
                yield snapshot
        finally:
            self._snapshot = None

    def step(self) -> bool:
        """Make a real policy step, which is not undone, and return whether the environment was reset.

        Raises:
            Exception: Any error that the environment raises.
        """
        with gradient_mode_of(self.env.context_manager()):
            if self.observations is None:
                self.observations = validated_observations(self.env, "observations_reset")
            actions = self.actor(self.observations)
            self.actions = actions.detach().clone()  # step() may write to what it gets
            self.observations, was_reset = step_environment(self.env, actions)
            if was_reset:
                self.observations = validated_observations(self.env, "observations_reset")
            return was_reset

    def policy_step(self) -> Results:
        """Run one policy step and some of its sub-steps, and return the results of each."""
        observations = self.stages.observe()
        results: Results = [observation_arrays(observations)]
        actions = self.stages.act(observations)
        results[0][ACTIONS] = to_numpy(actions)
        self.stages.process(actions)
        results[0] |= self.outputs()
        for _ in range(min(self.env.decimation - 1, _SUB_STEPS)):
            self.stages.sub_step()
            results.append(self.outputs())
        return results

    def results_with(self, changes: dict[str, object], snapshot: Snapshot) -> Results | None:
        """The results of a policy step with other values at some paths; None if it raises. All changes are undone.

        Inputs that are calls keep their values.
        """
        try:
            with self.env.context_manager().calls_replaced():
                for attr_path, value in changes.items():
                    assign(self.roots, attr_path, value)
                return self.policy_step()
        except Exception:
            return None
        finally:
            snapshot.restore()

    def outputs(self) -> dict[str, np.ndarray]:
        """The current values of all Outputs and Memories, by the names of their ports."""
        outputs = self.env.context_manager().get_output_components()
        return {item.output_name: item.value_numpy for item in outputs}


ABSENT = object()


def assign(roots: dict[str, object], attr_path: str, value: object) -> None:
    """Write a value to the attribute or item at a path. A `__setattr__` in user code is not called.

    Args:
        roots: The live objects.
        attr_path: The path to write to.
        value: The value to write; ABSENT deletes the attribute or item.

    Raises:
        KeyError: If the path cannot be written.
    """
    holder, key = split_attr_path(attr_path)
    owner = resolve_in(roots, holder)
    key = actual_key(owner, key)
    if isinstance(owner, type):
        return type.__setattr__(owner, key, value)
    if isinstance(owner, torch.jit.ScriptModule):
        return set_script_attribute(owner, key, value)
    target = instance_dict(owner) if isinstance(key, str) and not isinstance(owner, dict) else owner
    if owner is None:
        raise KeyError(attr_path)
    if value is ABSENT:
        if not isinstance(target, dict):
            raise KeyError(attr_path)
        del target[key]
    elif isinstance(now := target.get(key) if isinstance(target, dict) else None, np.ndarray) and _fits(now, value):
        now[...] = value  # others may hold views of it
    elif isinstance(key, str) and key in slots_of(owner):
        object.__setattr__(owner, key, value)
    elif (kind := class_that_holds(owner, key)) is not None:
        type.__setattr__(kind, key, value)
    else:
        target[key] = value


def class_that_holds(owner: object, key: object) -> type | None:
    """The class that has an attribute of an object, if not the object itself has it; None for items and no data."""
    if not isinstance(key, str) or isinstance(owner, dict) or key in instance_dict(owner):
        return None
    return class_holding(type(owner), key)


def _fits(array: np.ndarray, value: object) -> bool:
    return isinstance(value, np.ndarray) and value.shape == array.shape and array.flags.writeable


def split_attr_path(attr_path: str) -> tuple[str, Any]:
    """Split a path into the path of the holder and the last attribute or key."""
    if not attr_path.endswith("]"):
        holder, _, attribute = attr_path.rpartition(".")
        return holder, attribute
    node = ast.parse(attr_path, mode="eval").body
    assert isinstance(node, ast.Subscript)
    return ast.unparse(node.value), parsed_key(node.slice)


def same_results(one: Results, two: Results) -> bool:
    """Whether two policy steps have the same results."""
    return len(one) == len(two) and all(
        equal(value, other[name]) for step, other in zip(one, two, strict=True) for name, value in step.items()
    )


def equal(one: np.ndarray, two: np.ndarray) -> bool:
    """Whether two arrays have the same shape and elements; equal NaNs are equal."""
    return np.array_equal(one, two, equal_nan=one.dtype.kind == "f" and two.dtype.kind == "f")
