"""Abstract base class for exportable environments.

An adapter around an existing environment implements this interface. The exporter uses it to record the
observation computation and action processing, and the evaluator to step the environment.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch

from exploy.environment.context_manager import ContextManager
from exploy.errors import InvalidEnvironmentError

Observations: TypeAlias = Any  # a tensor, or a mapping with groups of tensors; subclasses declare which


class ExportableEnvironment(ABC):
    """Interface of an environment for the exporter and the evaluator.

    One policy step of the exported file is: connections, command updates, `compute_observations()`, the
    actor, `process_actions()`, `apply_actions()`. One sub-step is: connections, `apply_actions()`.

    Observations are one tensor, or groups of tensors in a dictionary or TensorDict, such as a vector and an image. The
    actor gets them as the environment returns them.
    """

    def __init__(self) -> None:
        self._context_manager = ContextManager()
        self._command_updates: list[Callable[[], None]] = []

    def context_manager(self) -> ContextManager:
        """The manager that holds this environment's components."""
        if not hasattr(self, "_context_manager"):
            raise InvalidEnvironmentError(f"{type(self).__name__}.__init__() must call super().__init__() first.")
        return self._context_manager

    @abstractmethod
    def compute_observations(self) -> Observations:
        """Compute the observations from the current state, in torch operations only."""

    @abstractmethod
    def process_actions(self, actions: torch.Tensor) -> None:
        """Convert raw actions to targets; called once per policy step."""

    @abstractmethod
    def apply_actions(self) -> None:
        """Apply processed actions (for example joint targets); called every simulation step."""

    @abstractmethod
    def prepare_export(self) -> None:
        """Put the environment into the state to export. Called before each export."""

    @abstractmethod
    def empty_actor_observations(self) -> Observations:
        """A tensor with the shape and dtype of the observations, or one for each group."""

    @abstractmethod
    def empty_actions(self) -> torch.Tensor:
        """A tensor with the shape and dtype of the actions."""

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """Metadata to store in the file: strings unchanged, other values as JSON."""

    @property
    @abstractmethod
    def decimation(self) -> int:
        """Number of simulation steps per policy step; 1 or more."""

    @abstractmethod
    def register_evaluation_hooks(
        self,
        update: Callable[[], None],
        reset: Callable[[], None],
        evaluate_substep: Callable[[int], None],
    ) -> None:
        """Store three functions that the environment calls while it steps, for comparison at every sub-step.

        An environment that calls none of them is compared by the functions that `step()` shares with the other methods.

        Args:
            update: Call this when the state is final, before observations are computed from it.
            reset: Call this right after a reset.
            evaluate_substep: Call this with the number of the sub-step after each `apply_actions()`,
                before the simulator steps. The number is 0 for the `apply_actions()` of the policy step.
        """

    @abstractmethod
    def step(self, actions: torch.Tensor) -> tuple[Observations, bool]:
        """Step the environment by one policy step.

        Returns:
            The next observations, and whether the environment was reset.
        """

    @abstractmethod
    def get_observation_names(self) -> list[str] | Mapping[str, Any]:
        """One name for each element of the observation; if there are groups, a list of names by group.

        Groups with more than one dimension, such as images, need no names.
        """

    @abstractmethod
    def observations_reset(self) -> Observations:
        """The observations of the current state; used at the start of an evaluation and after a reset."""

    def reset(self) -> None:
        """Reset the environment to the start of an episode, as training does; optional.

        The start values of memories are found by it. Without it, the environment is stepped until `step()` reports a
        reset.

        Raises:
            NotImplementedError: If the subclass does not implement it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement reset().")

    def register_command_update(self, command_update: Callable[[], None]) -> None:
        """Register a function that updates commands, called before observations are computed.

        Raises:
            InvalidEnvironmentError: If it is not callable.
        """
        if not callable(command_update):
            raise InvalidEnvironmentError(f"A command update must be callable, got {type(command_update).__name__}.")
        self._command_updates.append(command_update)

    @property
    def command_updates(self) -> list[Callable[[], None]]:
        """The registered command updates, in order."""
        return list(self._command_updates)


def has_reset(env: ExportableEnvironment) -> bool:
    """Return whether an environment implements the optional `reset()`."""
    return type(env).reset is not ExportableEnvironment.reset
