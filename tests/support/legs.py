"""The state of a small legged robot, with the faults that only show inside of a policy step."""

from enum import Enum
from typing import Any

import torch

from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.exportable_environment import ExportableEnvironment

NUM_OBSERVATIONS = 6
STIFFNESS = 20.0
SOFTENING = 0.3


class Kind(Enum):
    """What is special about a robot; the comment says what its file does."""

    PLAIN = "plain"  # right
    COUNTS_IN_PYTHON = "counts in Python"  # wrong: step() sets a number that the torque depends on
    COUNTS_IN_MEMORY = "counts in memory"  # right: the count is a Memory, which the torque code advances
    CONTACT_CLEARED_AFTER = "contact cleared after"  # wrong: the first torque does not get what observations got
    CONTACT_CLEARED_BEFORE = "contact cleared before"  # right: observations get the cleared one as well
    CONTACT_FORGOTTEN = "contact forgotten"  # wrong: no Input, and zero whenever a step ends


WRONG = (Kind.COUNTS_IN_PYTHON, Kind.CONTACT_CLEARED_AFTER, Kind.CONTACT_FORGOTTEN)
RIGHT = (Kind.PLAIN, Kind.COUNTS_IN_MEMORY, Kind.CONTACT_CLEARED_BEFORE)


class Legs:
    """Tensors and motion of two joints. The torque code is left to those who have legs:

    share += growth
    goal = previous + share * (current - previous)
    torque = STIFFNESS * (goal - position) - SOFTENING * contact
    """

    def __init__(self, kind: Kind, decimation: int = 4, reset_every: int = 23):
        self.kind = kind
        self.decimation = decimation
        self._reset_every = reset_every
        self._noise = torch.Generator().manual_seed(1)
        self._steps = 0
        self.position = torch.tensor([[0.1, 0.2]])
        self.contact = torch.zeros(1, 2)
        self.previous = torch.zeros(1, 2)
        self.current = torch.zeros(1, 2)
        self.torque = torch.zeros(1, 2)
        self.share: Any = torch.zeros(1, 1) if kind is Kind.COUNTS_IN_MEMORY else 1.0
        self.growth = 1 / decimation if kind is Kind.COUNTS_IN_MEMORY else 0.0

    def accept(self, actions: torch.Tensor) -> None:
        """Process the actions of a policy step."""
        self.previous[:] = self.current
        self.current[:] = 0.5 * actions
        if self.kind is Kind.COUNTS_IN_MEMORY:
            self.share.zero_()

    def begin_sub_step(self, number: int) -> None:
        """Called by the loop of step(), and by nobody else."""
        if self.kind is Kind.COUNTS_IN_PYTHON:
            self.share = (number + 1) / self.decimation

    def begin_move(self, number: int) -> None:
        """Called by a loop that says when the torque of a sub-step is final."""

    def move(self) -> None:
        """One step of the simulator."""
        noise = 0.1 * torch.randn(1, 2, generator=self._noise)
        self.position += 0.01 * self.torque + 0.1 * noise
        self.contact = noise.abs()

    def clear_before_observations(self) -> None:
        if self.kind in (Kind.CONTACT_CLEARED_BEFORE, Kind.CONTACT_FORGOTTEN):
            self.contact = torch.zeros(1, 2)

    def clear_after_observations(self) -> None:
        if self.kind is Kind.CONTACT_CLEARED_AFTER:
            self.contact = torch.zeros(1, 2)

    def end_step(self) -> bool:
        """Count a policy step, and reset at the end of an episode."""
        self._steps += 1
        done = self._steps % self._reset_every == 0
        if done:
            self.restart()
        return done

    def restart(self) -> None:
        self.position[:] = 0.3
        self.contact = torch.zeros(1, 2)
        self.current.zero_()

    def components(self) -> list[Any]:
        contact = [] if self.kind is Kind.CONTACT_FORGOTTEN else [Input("contact", lambda: self.contact)]
        count = [Memory("share", lambda: self.share)] if self.kind is Kind.COUNTS_IN_MEMORY else []
        return [
            Input("position", lambda: self.position),
            Memory("current", lambda: self.current),
            Output("torque", lambda: self.torque),
            *contact,
            *count,
        ]


class Unhooked(ExportableEnvironment):
    """What every adapter around legs says in the same way; it calls no hooks."""

    def __init__(self, legs: Legs):
        super().__init__()
        self.legs = legs
        self.context_manager().add_components(legs.components())

    def process_actions(self, actions: torch.Tensor) -> None:
        self.legs.accept(actions)

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, NUM_OBSERVATIONS)

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def metadata(self) -> dict[str, Any]:
        return {}

    @property
    def decimation(self) -> int:
        return self.legs.decimation

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        pass

    def get_observation_names(self) -> list[str]:
        return [f"obs_{index}" for index in range(NUM_OBSERVATIONS)]

    def observations_reset(self) -> torch.Tensor:
        return self.compute_observations()
