"""Tests whether the results of a program depend on its stored values, by changing them."""

from functools import cached_property

import numpy as np
import torch

from exploy.capture.perturbation import disturbed
from exploy.capture.program import FrozenTensor, Program

_SCALES = (1.0, 1000.0)  # the large scale shows effects that a clamp would hide at the small one

Results = tuple[torch.Tensor, ...]


class Sensitivity:
    """Runs a program with changed values of its frozen tensors.

    Args:
        program: The program. It is not modified.
    """

    def __init__(self, program: Program):
        self._program = program

    def depends_on(self, frozen: FrozenTensor, elements: np.ndarray | None = None) -> bool:
        """Whether any result changes when a frozen tensor changes, for inputs near the examples.

        Args:
            frozen: The tensor.
            elements: Flags for the elements to change; None for all. Ignored if the program stores the tensor in a
                different shape.
        """
        if frozen.is_read_by_python:
            return True  # a branch or a number was made of it, which the program does not show
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
            return True  # for example, an index that is no longer valid
        return not all(
            torch.equal(value.nan_to_num(), other.nan_to_num()) for value, other in zip(before, after, strict=True)
        )

    @cached_property
    def _reference(self) -> tuple[dict[str, torch.Tensor], Results]:
        """Inputs near the examples and their results; the examples themselves if the program fails on other inputs."""
        generator = torch.Generator().manual_seed(0)
        examples = self._program.examples
        inputs = {name: disturbed(value, generator) for name, value in examples.items()}
        try:
            return inputs, self._results(inputs)
        except Exception:
            return examples, self._results(examples)

    def _results(self, values: dict[str, torch.Tensor], buffers: dict[str, torch.Tensor] | None = None) -> Results:
        """Compute all results, with replaced values of some buffers and a fixed random seed."""
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            arguments = tuple(values[name] for name in self._program.input_names)
            results: Results = torch.func.functional_call(self._program.module, buffers or {}, arguments)
        return results
