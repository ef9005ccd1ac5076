"""The values that memories have after a reset of the environment."""

import math
import time
from collections.abc import Callable, Collection

import numpy as np
import torch

from exploy.environment.actor import ExportableActor
from exploy.environment.components import Memory
from exploy.environment.exportable_environment import ExportableEnvironment, has_reset
from exploy.environment.observations import step_environment, validated_observations
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import ActorError
from exploy.live.gradient_mode import gradient_mode_of
from exploy.verify.step_functions import StepFunctions, find_step_functions
from exploy.verify.step_observer import Readers, StepObserver
from exploy.verify.stepped import Values, same_values

RESET_WITHIN = 500


class Resets:
    """Resets an environment and reads its memories: those of the actor excepted, which `actor.reset()` resets.

    Args:
        env: The environment; it is really reset and stepped.
        actor: The actor, which steps it.
        written_by_observations: The names of the memories that computing observations changes.
        within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`.
        functions: The functions by which the environment computes observations; found when they are needed if None.
        after_step: Called after each policy step, except for one that `values()` sees end in a reset.

    `steps` counts the policy steps.
    """

    def __init__(
        self,
        env: ExportableEnvironment,
        actor: ExportableActor,
        written_by_observations: Collection[str],
        within: int = RESET_WITHIN,
        functions: StepFunctions | None = None,
        after_step: Callable[[], None] = lambda: None,
    ):
        self.steps = 0
        self._after_step = after_step
        self._env = env
        self._actor = actor
        self._written = written_by_observations
        self._within = within
        self._readers = Readers(self._read_inputs, self._read_memories, dict, dict)
        self._functions = functions

    def values(self) -> Values | None:
        """Reset the environment and return the value of each memory before the first observations, by memory name.

        Returns:
            The values; None if no reset was seen.

        Raises:
            Exception: Whatever the environment raises.
        """
        observer = StepObserver(self._env, self._readers, lambda: None, follows_sub_steps=False)
        manager = self._env.context_manager()
        with observer.watching(self._watched(), lambda: None), gradient_mode_of(manager):
            return self._start(observer) if self._reset(observer) else None

    def step_on(self, steps: int, seconds: float = math.inf) -> None:
        """Make policy steps, through resets; fewer if the time is over before.

        Raises:
            Exception: Whatever the environment raises.
        """
        with gradient_mode_of(self._env.context_manager()):
            observations = validated_observations(self._env, "observations_reset")
            end = time.monotonic() + seconds
            for _ in range(steps):
                if time.monotonic() > end:
                    break
                observations, done = step_environment(self._env, self._actor(observations))
                self.steps += 1
                self._after_step()
                if done:
                    self._reset_actor()
                    observations = validated_observations(self._env, "observations_reset")

    def _watched(self) -> StepFunctions:
        """The functions that compute observations; none if neither memories nor the search for a reset need them."""
        if has_reset(self._env) and not self._written:
            return StepFunctions()
        self._functions = self._functions or find_step_functions(self._env, self._actor)
        return StepFunctions(observe=self._functions.observe)

    def _reset(self, observer: StepObserver) -> bool:
        if has_reset(self._env):
            observer.begin_step()
            self._env.reset()
            self._reset_actor()
            return True
        observations = validated_observations(self._env, "observations_reset")
        for _ in range(self._within):
            observer.begin_step()
            observations, done = step_environment(self._env, self._actor(observations))
            self.steps += 1
            if done or observer.was_reset:
                self._reset_actor()
                return True
            self._after_step()
        return False

    def _start(self, observer: StepObserver) -> Values:
        """The memories after the reset; those that observations write, at the first computation since the reset.

        An environment without `reset()` may leave the reset to `observations_reset()`, which an evaluation calls.
        """
        before, readings = self._readers.reading(), observer.readings()
        if not has_reset(self._env):
            observer.forget_readings()
            validated_observations(self._env, "observations_reset")
            readings += observer.readings()
        after = self._readers.reading()
        since = [item for item in (*readings, before, after) if same_values(item.inputs, after.inputs)]
        first = since[0].memories
        return after.memories | {name: first[name] for name in self._written if name in first}

    def _reset_actor(self) -> None:
        actions = self._env.empty_actions()
        self._actor.reset(torch.ones(actions.shape[0], dtype=torch.bool, device=actions.device))

    def _read_inputs(self) -> Values:
        inputs = self._env.context_manager().get_input_components()
        return {item.input_name: to_numpy(item.fetch()) for item in inputs if not isinstance(item, Memory)}

    def _read_memories(self) -> Values:
        values: dict[str, np.ndarray] = {}
        for memory in self._env.context_manager().get_memory_components():
            try:
                values[memory.name] = memory.value_numpy
            except ActorError:
                continue  # the actor has dropped its state
        return values
