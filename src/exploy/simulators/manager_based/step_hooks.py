"""Lets an environment call evaluation hooks while it steps, by methods of its own that are replaced meanwhile."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from exploy.simulators.manager_based.replaced_attributes import attributes_replaced


class StepHooks:
    """The hooks of an evaluation. They do nothing until `register()` is called.

    Args:
        env: The manager-based environment.
        before_observations: Called before observations are computed, ahead of the hooks.
        last_of_sub_step: The object and the name of the method that ends the work of the pipeline in a sub-step, if
            that is not the action manager's: for example the scene's, where it computes models of motors.
    """

    def __init__(
        self, env: Any, before_observations: Callable[[], None], last_of_sub_step: tuple[Any, str] | None = None
    ):
        self._env = env
        self._before_observations = before_observations
        self._last_of_sub_step = last_of_sub_step
        self._sub_step = 0
        self._in_sub_step = False
        self.register(_ignore, _ignore, _ignore)

    def register(
        self, update: Callable[[], None], reset: Callable[[], None], evaluate_substep: Callable[[int], None]
    ) -> None:
        """Call these functions from now on."""
        self._update, self._reset, self._evaluate_substep = update, reset, evaluate_substep

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Replace methods of the environment's managers by ones that call the hooks as well."""
        env = self._env
        process, apply = env.action_manager.process_action, env.action_manager.apply_action
        compute, reset = env.observation_manager.compute, env._reset_idx
        last: Any = None if self._last_of_sub_step is None else getattr(*self._last_of_sub_step)

        def process_action(*args: Any, **kwargs: Any) -> Any:
            self._sub_step = 0
            return process(*args, **kwargs)

        def apply_action(*args: Any, **kwargs: Any) -> Any:
            result = apply(*args, **kwargs)
            self._in_sub_step = True
            if last is None:
                self._end_sub_step()
            return result

        def last_of_sub_step(*args: Any, **kwargs: Any) -> Any:
            result = last(*args, **kwargs)
            if self._in_sub_step:  # a reset calls it as well
                self._end_sub_step()
            return result

        def compute_observations(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("update_history", args[0] if args else False):  # else, it may return what it returned before
                self._before_observations()
                self._update()
            return compute(*args, **kwargs)

        def reset_idx(*args: Any, **kwargs: Any) -> Any:
            result = reset(*args, **kwargs)
            self._reset()
            return result

        with attributes_replaced(
            [
                (env.action_manager, "process_action", process_action),
                (env.action_manager, "apply_action", apply_action),
                (env.observation_manager, "compute", compute_observations),
                (env, "_reset_idx", reset_idx),
                *([(*self._last_of_sub_step, last_of_sub_step)] if self._last_of_sub_step is not None else []),
            ]
        ):
            yield

    def _end_sub_step(self) -> None:
        self._in_sub_step = False
        self._evaluate_substep(self._sub_step)
        self._sub_step += 1


def _ignore(*_: object) -> None:
    """Stand in for a hook when no evaluation is running."""
