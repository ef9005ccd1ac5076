"""Finds the Inputs and Memories that a captured pipeline uses, out of more that a robot could give."""

from collections.abc import Iterator

import torch

from exploy.capture.perturbation import disturbed, probes
from exploy.capture.program import Program

_SCALES = (1.0, 1000.0)
_REFERENCES = 2

Values = dict[str, torch.Tensor]


def used_ports(program: Program) -> set[str]:
    """The names of the inputs and memory inputs that observations, actions or Outputs depend on.

    A memory counts if one of these, or a memory that counts, depends on it, and if the pipeline changes it: what stays
    as it is is a constant. Dependence is looked for in the graph, then tried with other values: code that reads the
    poses of all bodies uses those alone that change a result.
    """
    influence = _Influence(program)
    memories = {memory.output_name: memory.input_name for memory in program.memories}
    kept = {input_name for output, input_name in memories.items() if influence.keeps(input_name, output)}
    pending = [name for name in influence.results if name not in memories]
    used: set[str] = set()
    while pending:
        result = pending.pop()
        found = {name for name in program.input_names if result in influence.of(name)} - used - kept
        used |= found
        pending += [output for output, name in memories.items() if name in found]
    return used


class _Influence:
    """Runs a program with other values of one input at a time."""

    def __init__(self, program: Program):
        self._program = program
        self._known: dict[str, set[str]] = {}
        self._references = [(values, self._run(values)) for values in self._starts()]
        self.results = {name for step in program.sources for name in step}

    def of(self, name: str) -> set[str]:
        """The names of the results that an input changes, at either rate."""
        if name not in self._known:
            self._known[name] = self._changed_by(name)
        return self._known[name]

    def keeps(self, name: str, result: str) -> bool:
        """Whether a memory leaves both steps as it came, with all values that were tried."""
        read = {source for step in self._program.sources if result in step for source in step[result].inputs}
        return read <= {name} and not any(
            result in step and not torch.equal(step[result].nan_to_num(), values[name].nan_to_num())
            for values, steps in self._references
            for step in steps
        )

    def _changed_by(self, name: str) -> set[str]:
        candidates = {result for step in self._program.sources for result, item in step.items() if name in item.inputs}
        changed: set[str] = set()
        for values, before in self._references:
            for value in _others(values[name]):
                if changed == candidates:
                    return changed
                try:
                    after = self._run({**values, name: value})
                except Exception:  # for example, an index that is not valid
                    return candidates
                changed |= {result for result in candidates if _differs(before, after, result)}
        return changed

    def _starts(self) -> Iterator[Values]:
        """Values of all inputs: as they were found, and others if the program runs with them."""
        examples, generator = self._program.examples, torch.Generator().manual_seed(0)
        yield examples
        for _ in range(_REFERENCES):
            values = {name: disturbed(value, generator) for name, value in examples.items()}
            try:
                self._run(values)
            except Exception:
                return
            yield values

    def _run(self, values: Values) -> tuple[Values, Values]:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            return self._program.run(values)


def _others(value: torch.Tensor) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [*(disturbed(value, generator, scale) for scale in _SCALES), *probes(value)]


def _differs(before: tuple[Values, Values], after: tuple[Values, Values], result: str) -> bool:
    return any(
        result in one and not torch.equal(one[result].nan_to_num(), two[result].nan_to_num())
        for one, two in zip(before, after, strict=True)
    )
