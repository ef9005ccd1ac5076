"""The policy step and the sub-step of a library that was compiled from the C of a file."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from exploy.errors import ContractError
from exploy.runtime.step_runner import Arrays

_ALIGNMENT = 64
_STATUS = {
    1: "an index is outside of its table",
    2: "a number does not fit an integer",
    3: "an integer is divided by zero",
}


@dataclass(frozen=True)
class CStep:
    """A function of a library that computes one step.

    Args:
        function: Takes pointers to all ports, and last to scratch memory; returns a status.
        arguments: The ports that it reads, in order.
        results: The ports that it computes, in order.
        scratch_bytes: How much scratch memory it needs.
    """

    function: Callable[[Any], int]
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    scratch_bytes: int

    @property
    def inputs(self) -> frozenset[str]:
        """The ports that it reads."""
        return frozenset(self.arguments)

    @property
    def outputs(self) -> frozenset[str]:
        """The ports that it computes."""
        return frozenset(self.results)

    def bind(self, reads: Arrays, writes: Arrays) -> Any:
        """Note the addresses of arrays."""
        arrays = [*(reads[name] for name in self.arguments), *(writes[name] for name in self.results)]
        scratch = np.zeros(self.scratch_bytes + _ALIGNMENT, np.uint8)
        aligned = -(-scratch.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        pointers = (ctypes.c_void_p * (len(arrays) + 1))(*(array.ctypes.data for array in arrays), aligned)
        pointers.kept = (arrays, scratch)  # type: ignore[attr-defined]
        return pointers

    def run(self, binding: Any) -> None:
        """Compute the step.

        Raises:
            ContractError: If it ends with a status other than OK.
        """
        status = self.function(binding)
        if status:
            raise ContractError(f"The step ended with status {status}: {_STATUS.get(status, 'unknown')}.")
