"""What a controller needs to know of the policy step and the sub-step of a file, whatever computes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Arrays = Mapping[str, np.ndarray]


class StepRunner(Protocol):
    """The policy step or the sub-step of a file, ready to run on arrays that are bound once."""

    @property
    def inputs(self) -> frozenset[str]:
        """The ports that it reads."""

    @property
    def outputs(self) -> frozenset[str]:
        """The ports that it computes."""

    @property
    def run(self) -> Callable[[Any], None]:
        """Compute what `bind()` has prepared."""

    def bind(self, reads: Arrays, writes: Arrays) -> Any:
        """Prepare runs that read from some arrays and write to others, which must be kept alive meanwhile."""


@dataclass(frozen=True)
class IdleStep:
    """A step that computes nothing."""

    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()

    def bind(self, reads: Arrays, writes: Arrays) -> None:
        """Prepare nothing."""

    def run(self, binding: None) -> None:
        """Do nothing."""
