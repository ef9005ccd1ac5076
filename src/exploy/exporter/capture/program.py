"""The result of a capture: pure functions for both rates, with named ports. Torch, but neither environment nor ONNX."""

from dataclasses import dataclass, field

import torch
from torch import fx

ACTIONS = "actions"
OBSERVATIONS = "obs"


@dataclass(frozen=True)
class Port:
    """A named tensor that goes into the program."""

    name: str
    example: torch.Tensor


@dataclass(frozen=True)
class MemoryPort:
    """A value that the program gives back and takes again at the next call.

    `carried` ones were not registered: they cross from the policy step to its sub-steps and have no meaning before
    the first policy step.
    """

    name: str
    input_name: str
    output_name: str
    initial: torch.Tensor
    carried: bool = False
    written_by_observations: bool = False


@dataclass(frozen=True)
class FrozenTensor:
    """A tensor of the environment that was read, not registered, and is stored in the program with its value."""

    name: str
    where: str
    value: torch.Tensor


@dataclass(frozen=True)
class Program:
    """Both paths of an environment as one graph module without side effects.

    The module takes the values of `inputs` and `memories` in that order, and returns the values of `default_outputs`
    followed by those of `sub_step_outputs`.
    """

    module: fx.GraphModule
    inputs: list[Port]
    memories: list[MemoryPort]
    default_outputs: list[str]
    sub_step_outputs: list[str]
    frozen: list[FrozenTensor]
    parameter_names: dict[str, str] = field(default_factory=dict)

    @property
    def input_names(self) -> list[str]:
        """Names of everything that goes in, in the order of the module's arguments."""
        return [port.name for port in self.inputs] + [memory.input_name for memory in self.memories]

    @property
    def examples(self) -> dict[str, torch.Tensor]:
        """Values of everything that goes in: inputs as found, memories as they start."""
        values = {port.name: port.example for port in self.inputs}
        return values | {memory.input_name: memory.initial for memory in self.memories}

    def run(self, values: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Compute both paths from the same values, by name: (default outputs, sub-step outputs)."""
        with torch.no_grad():
            results = self.module(*(values[name] for name in self.input_names))
        count = len(self.default_outputs)
        default = dict(zip(self.default_outputs, results[:count], strict=True))
        return default, dict(zip(self.sub_step_outputs, results[count:], strict=True))
