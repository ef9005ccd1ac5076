"""A captured program that can be stepped beside its environment like an exported file."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from exploy.capture.program import Program
from exploy.contract import STEP_COUNT, Contract, Port
from exploy.description.environment_contract import describe_memory
from exploy.environment.actor import ExportableActor
from exploy.environment.components import to_numpy


class ProgramSession:
    """Runs a program with the interface of a SessionWrapper, so far as ClosedLoop needs it.

    Args:
        program: The captured program.
        actor: The actor that it was made from.
        decimation: Number of simulation steps in a policy step.
        observation_names: Names of the observation's elements.
    """

    onnx_file_path = "The captured program"

    def __init__(
        self, program: Program, actor: ExportableActor, decimation: int, observation_names: tuple[str, ...] = ()
    ):
        self._program = program
        self._actor = actor
        self._decimation = decimation
        self._results: dict[str, np.ndarray] = {}
        self.last_values: dict[str, torch.Tensor] = program.examples
        self.input_names = [STEP_COUNT, *program.input_names]
        self.output_names = list(program.default_outputs)
        self.contract = _contract(program, decimation, observation_names)

    def get_actor(self) -> ExportableActor | None:
        """The actor that the program was made from."""
        return self._actor

    def __call__(self, /, **values: Any) -> list[np.ndarray]:
        """Run the path that the step count asks for."""
        is_policy_step = int(values.pop(STEP_COUNT)) % self._decimation == 0
        self.last_values = {name: torch.from_numpy(np.array(value)) for name, value in values.items()}
        default, sub_step = self._program.run(self.last_values)
        results = default if is_policy_step else {name: default[name] * 0 for name in default} | sub_step
        self._results = {name: to_numpy(value) for name, value in results.items()}
        return list(self._results.values())

    def run(self, step_count: int, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All outputs of one step."""
        known = {name: value for name, value in values.items() if name in self.input_names}
        self(**known, **{STEP_COUNT: step_count})
        return self._results

    def get_output_value(self, output_name: str) -> np.ndarray:
        """The value of one output in the last run."""
        return self._results[output_name]


def _contract(program: Program, decimation: int, observation_names: tuple[str, ...]) -> Contract:
    inputs = {port.name for port in program.inputs}
    return Contract(
        decimation=decimation,
        inputs=(Port(STEP_COUNT, "int32", ()), *(_port(name, value) for name, value in program.examples.items())),
        outputs=tuple(_port(name, value) for name, value in program.run(program.examples)[0].items()),
        memories=tuple(describe_memory(memory) for memory in program.memories),
        sub_step_inputs={name: sorted(sources.inputs & inputs) for name, sources in program.sources[1].items()},
        observation_names=observation_names,
    )


def _port(name: str, value: torch.Tensor) -> Port:
    return Port(name, str(to_numpy(value).dtype), tuple(value.shape))
