"""Whether the results of a program depend on what is stored in it, found by changing that."""

from functools import cached_property

import numpy as np
import torch

from exploy.capture.perturbation import disturbed
from exploy.capture.program import FrozenTensor, Program

_SCALES = (1.0, 1000.0)  # the second shows what a clamp would hide from the first

Results = tuple[torch.Tensor, ...]


class Sensitivity:
    """Runs a program with other values of its frozen tensors.

    Args:
        program: The program, which stays as it is.
    """

    def __init__(self, program: Program):
        self._program = program

    def depends_on(self, frozen: FrozenTensor, elements: np.ndarray | None = None) -> bool:
        """Whether any result changes, for inputs around the examples, when a frozen tensor does.

        Args:
            frozen: The tensor.
            elements: Flags for those of its elements to change, if not all; all where they are not stored one by one.
        """
        read = {name for step in self._program.sources for sources in step.values() for name in sources.buffers}
        buffers = read & frozen.buffers
        return bool(buffers) and any(self._shows(frozen, buffers, elements, scale) for scale in _SCALES)

    def _shows(self, frozen: FrozenTensor, buffers: set[str], elements: np.ndarray | None, scale: float) -> bool:
        generator = torch.Generator().manual_seed(0)
        changed = {}
        for name in buffers:
            constant = self._program.module.get_buffer(name)
            changed[name] = disturbed(constant, generator, scale)
            if elements is not None and tuple(constant.shape) == frozen.shape:
                flags = torch.from_numpy(elements).reshape(constant.shape)
                changed[name] = torch.where(flags, changed[name], constant)
        inputs, before = self._reference
        try:
            after = self._results(inputs, changed)
        except Exception:
            return True  # an index, say, that is no longer valid
        return not all(
            torch.equal(value.nan_to_num(), other.nan_to_num()) for value, other in zip(before, after, strict=True)
        )

    @cached_property
    def _reference(self) -> tuple[dict[str, torch.Tensor], Results]:
        """Inputs around the examples, or the examples where the program cannot be run at others, and the results."""
        generator = torch.Generator().manual_seed(0)
        examples = self._program.examples
        inputs = {name: disturbed(value, generator) for name, value in examples.items()}
        try:
            return inputs, self._results(inputs)
        except Exception:
            return examples, self._results(examples)

    def _results(self, values: dict[str, torch.Tensor], buffers: dict[str, torch.Tensor] | None = None) -> Results:
        """All results with other values of some buffers, and always the same random numbers."""
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            arguments = tuple(values[name] for name in self._program.input_names)
            results: Results = torch.func.functional_call(self._program.module, buffers or {}, arguments)
        return results
