"""A captured program that can be stepped side by side with its environment, like an exported file."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch

from exploy.capture.program import Program
from exploy.contract import STEP_COUNT, Contract, Port, PortKind
from exploy.description.environment_contract import describe_memory
from exploy.environment.observations import OBSERVATIONS
from exploy.environment.tensor_copies import to_numpy
from exploy.runtime.step_runner import Arrays
from exploy.verify.stepped import SteppedRunners, Values


class SteppedProgram(SteppedRunners):
    """A program that can be stepped; `last_values` are its inputs in the last step.

    Args:
        program: The captured program.
        decimation: Number of simulation steps in a policy step.
        observation_names: Names of the elements of observations, by port.
    """

    def __init__(
        self, program: Program, decimation: int, observation_names: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    ):
        contract = _contract(program, decimation, observation_names)
        steps = _ProgramStep(program, is_sub_step=False), _ProgramStep(program, is_sub_step=True)
        super().__init__("The captured program", contract, steps)
        self._input_names = program.input_names
        self.last_values = program.examples

    def run(self, step_count: int, values: Mapping[str, np.ndarray]) -> Values:
        """Compute all outputs of one step."""
        self.last_values = {name: torch.from_numpy(np.array(values[name])) for name in self._input_names}
        return super().run(step_count, values)


@dataclass(frozen=True)
class _ProgramStep:
    """The policy step or the sub-step of a program, as a `StepRunner`."""

    program: Program
    is_sub_step: bool

    @property
    def inputs(self) -> frozenset[str]:
        return frozenset(self.program.input_names)

    @property
    def outputs(self) -> frozenset[str]:
        return frozenset(self.program.sub_step_outputs if self.is_sub_step else self.program.policy_step_outputs)

    def bind(self, reads: Arrays, writes: Arrays) -> tuple[Arrays, Arrays]:
        return reads, writes

    def run(self, binding: tuple[Arrays, Arrays]) -> None:
        reads, writes = binding
        results = self.program.run({name: torch.from_numpy(array) for name, array in reads.items()})
        for name, value in results[self.is_sub_step].items():
            writes[name][...] = to_numpy(value)


def _contract(program: Program, decimation: int, observation_names: Mapping[str, tuple[str, ...]]) -> Contract:
    return Contract(
        decimation=decimation,
        inputs=(Port(STEP_COUNT, "int32", ()), *(_port(name, value) for name, value in program.examples.items())),
        outputs=tuple(_output(name, value, program) for name, value in program.run(program.examples)[0].items()),
        memories=tuple(describe_memory(memory) for memory in program.memories),
        sub_step_inputs=program.sub_step_inputs,
        observation_names=observation_names.get(OBSERVATIONS, ()),
    )


def _output(name: str, value: torch.Tensor, program: Program) -> Port:
    kind = PortKind.OBSERVATIONS if name in program.observation_outputs else None
    return dataclasses.replace(_port(name, value), kind=kind)


def _port(name: str, value: torch.Tensor) -> Port:
    return Port(name, str(to_numpy(value).dtype), tuple(value.shape))
