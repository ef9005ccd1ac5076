"""Files and captured programs that are stepped side by side with an environment."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from exploy.contract import STEP_COUNT, Contract
from exploy.errors import ContractError, LoweringError
from exploy.runtime.backends import open_steps
from exploy.runtime.model_file import ModelFile
from exploy.runtime.step_runner import StepRunner

Values = dict[str, np.ndarray]


class CannotRunError(Exception):
    """A step cannot be computed from the given values."""


class Stepped(Protocol):
    """Computes one step at a time from the values of all inputs and memories."""

    @property
    def label(self) -> str:
        """Name for messages."""

    @property
    def contract(self) -> Contract | None:
        """The contract; None if there is none."""

    def run(self, step_count: int, values: Mapping[str, np.ndarray]) -> Values:
        """Compute all outputs of the policy step or sub-step that the step count selects. Other values are ignored."""


class SteppedRunners:
    """A policy step and a sub-step, each computed by a `StepRunner`.

    Args:
        label: Name for messages.
        contract: The contract of both steps.
        runners: The policy step and the sub-step.
    """

    def __init__(self, label: str, contract: Contract, runners: tuple[StepRunner, StepRunner]):
        self.label = label
        self.contract = contract
        self._runners = runners

    def run(self, step_count: int, values: Mapping[str, np.ndarray]) -> Values:
        """Compute all outputs of one step.

        Memories that the step does not write keep their input value. Other outputs that it does not compute are zero.

        Raises:
            CannotRunError: If the step cannot be computed from these values.
        """
        runner = self._runners[1 if step_count % self.contract.decimation else 0]
        fed = {**values, STEP_COUNT: np.array(step_count, dtype=np.int32)}
        results = {port.name: np.zeros(port.fixed_shape(), port.dtype) for port in self.contract.outputs}
        results |= {memory.output: np.array(values[memory.input]) for memory in self.contract.memories}
        reads = {name: np.array(fed[name]) for name in runner.inputs}
        try:
            runner.run(runner.bind(reads, {name: results[name] for name in runner.outputs}))
        except Exception as error:
            raise CannotRunError(str(error)) from error
        return results


def stepped_file(data: bytes) -> SteppedRunners:
    """Open a whole file of any backend that was just made here.

    Raises:
        LoweringError: If the file cannot be loaded.
    """
    file = ModelFile.parse(data, may_run_code=True)
    try:
        runners = open_steps(file, threads=1, spinning=False, split=False)
    except ContractError as error:
        raise LoweringError(f"The exported graph uses types or operators that are not supported: {error}") from error
    return SteppedRunners("The file", file.contract, runners)


def same_array(one: np.ndarray, two: np.ndarray) -> bool:
    """Return whether two arrays are equal; NaNs are equal to each other."""
    return np.array_equal(one, two, equal_nan=one.dtype.kind == "f")


def same_values(one: Values, two: Values) -> bool:
    """Return whether two readings of the same ports are equal."""
    return one.keys() == two.keys() and not changed_names(one, two)


def changed_names(one: Values, two: Values) -> set[str]:
    """The ports at which two readings of the same ports differ."""
    return {name for name, value in one.items() if not same_array(value, two[name])}
