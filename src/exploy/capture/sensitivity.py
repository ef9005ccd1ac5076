"""Tests whether the results of a program depend on its stored values, by changing them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch

from exploy.capture.perturbation import disturbed, probes
from exploy.capture.program import FrozenTensor, Program
from exploy.capture.undecided_comparisons import Flipped, Reference, has_comparisons

_SCALES = (1.0, 1000.0)  # the large scale shows effects that a clamp would hide at the small one

Results = tuple[torch.Tensor, ...]
Buffers = dict[str, torch.Tensor]


class Sensitivity:
    """Runs a program with changed values of its frozen tensors.

    Args:
        program: The program. It is not modified.
        later: Other values that frozen tensors have had, by name. A tensor may only have influence while others have
            these values: a factor of a product that was zero, say.
    """

    def __init__(self, program: Program, later: Mapping[str, np.ndarray] | None = None):
        self._program = program
        self._later = later or {}

    def depends_on(
        self, frozen: FrozenTensor, elements: np.ndarray | None = None, values: Sequence[np.ndarray] = ()
    ) -> bool:
        """Whether any result changes when a frozen tensor changes, for inputs near the examples.

        Tried are random values, values that code treats in special ways, and given ones. A comparison that a changed
        value reaches could have another result for others, so it counts as if it had.

        Args:
            frozen: The tensor.
            elements: Flags for the elements to change; None for all. Ignored if the program stores the tensor in a
                different shape.
            values: Other values that the tensor has had.
        """
        if frozen.is_read_by_python:
            return True  # a branch or a number was made of it, which the program does not show
        read = {name for step in self._program.sources for sources in step.values() for name in sources.buffers}
        names = read & frozen.buffers
        if not names:
            return False
        stored = {name: self._program.module.get_buffer(name) for name in sorted(names)}

        def changed(change: Callable[[torch.Tensor], torch.Tensor]) -> Buffers:
            return {name: _only(change(constant), constant, frozen, elements) for name, constant in stored.items()}

        noisy = [changed(_noise(scale)) for scale in _SCALES]
        if any(map(self._shows, noisy)):
            return True
        special = {name: probes(constant) for name, constant in stored.items()}
        for number in range(max(map(len, special.values()))):
            tried = {
                name: _only(special[name][number % len(special[name])], constant, frozen, elements)
                for name, constant in stored.items()
                if special[name]
            }
            if self._shows(tried):
                return True
        given = [torch.from_numpy(value) for value in values if value.shape == frozen.shape]
        if any(self._shows(changed(partial(_like, value))) for value in given):
            return True
        return self._could_turn_a_comparison(noisy[0])

    def _shows(self, changed: Buffers) -> bool:
        """Whether a result changes with other values of some buffers."""
        return any(self._shows_beside(reference, changed) for reference in self._references)

    def _shows_beside(self, reference: "_Reference", changed: Buffers) -> bool:
        try:
            after = self._results(reference.inputs, reference.buffers | changed)
        except Exception:
            return True  # for example, an index that is no longer valid
        return not _same(reference.results, after)

    def _could_turn_a_comparison(self, changed: Buffers) -> bool:
        """Whether a result changes if comparisons of changed values have other results."""
        module = self._program.module
        if not has_comparisons(module):
            return False
        inputs = self._references[0].inputs
        arguments = [inputs[name] for name in self._program.input_names]
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=()):
                reference = Reference(module)
                torch.manual_seed(0)
                before = reference.run(*_copies(arguments))
                torch.manual_seed(0)
                after = Flipped(module, changed, reference).run(*_copies(arguments))
        except Exception:
            return True  # it cannot be decided
        return not _same(before, after)

    @cached_property
    def _references(self) -> list["_Reference"]:
        """Results to compare with: with the stored values and, if there are any, with the later ones.

        The inputs are near the examples; they are the examples themselves if the program fails on other inputs.
        """
        generator = torch.Generator().manual_seed(0)
        examples = self._program.examples
        inputs = {name: disturbed(value, generator) for name, value in examples.items()}
        try:
            first = _Reference(inputs, {}, self._results(inputs))
        except Exception:
            first = _Reference(examples, {}, self._results(examples))
        later = self._later_buffers()
        if not later:
            return [first]
        try:
            return [first, _Reference(first.inputs, later, self._results(first.inputs, later))]
        except Exception:
            return [first]

    def _later_buffers(self) -> Buffers:
        held = dict(self._program.module.named_buffers())
        return {
            name: _like(torch.from_numpy(self._later[frozen.name]), held[name])
            for frozen in self._program.frozen_and_weights
            if frozen.name in self._later
            for name in frozen.buffers & held.keys()  # a buffer that nothing reads is not held
        }

    def _results(self, values: dict[str, torch.Tensor], buffers: Buffers | None = None) -> Results:
        """Compute all results, with replaced values of some buffers and a fixed random seed."""
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            arguments = tuple(values[name] for name in self._program.input_names)
            results: Results = torch.func.functional_call(self._program.module, buffers or {}, arguments)
        return results


@dataclass(frozen=True)
class _Reference:
    """The results of a program with some inputs, and with other values of some buffers."""

    inputs: dict[str, torch.Tensor]
    buffers: Buffers
    results: Results


def _noise(scale: float) -> Callable[[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return lambda constant: disturbed(constant, generator, scale)


def _like(value: torch.Tensor, constant: torch.Tensor) -> torch.Tensor:
    return value.to(constant.dtype) if value.shape == constant.shape else constant


def _only(
    value: torch.Tensor, constant: torch.Tensor, frozen: FrozenTensor, elements: np.ndarray | None
) -> torch.Tensor:
    """The value at the given elements, and the constant elsewhere."""
    if elements is None or tuple(constant.shape) != frozen.shape:
        return value
    return torch.where(torch.from_numpy(elements).reshape(constant.shape), value, constant)


def _copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in tensors]


def _same(one: Sequence[torch.Tensor], two: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(value.nan_to_num(), other.nan_to_num()) for value, other in zip(one, two, strict=True))
