"""The interface of a policy step or sub-step, independent of what computes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Arrays = Mapping[str, np.ndarray]


class StepRunner(Protocol):
    """The policy step or the sub-step of a file. It runs on arrays that are bound once."""

    @property
    def inputs(self) -> frozenset[str]:
        """The ports that it reads."""

    @property
    def outputs(self) -> frozenset[str]:
        """The ports that it computes."""

    @property
    def run(self) -> Callable[[Any], None]:
        """A function that computes the step on what `bind()` returned."""

    def bind(self, reads: Arrays, writes: Arrays) -> Any:
        """Prepare runs that read and write these arrays. The caller must keep the arrays alive."""


@dataclass(frozen=True)
class IdleStep:
    """A step that computes nothing."""

    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()

    def bind(self, reads: Arrays, writes: Arrays) -> None:
        """Prepare nothing."""

    def run(self, binding: None) -> None:
        """Do nothing."""
