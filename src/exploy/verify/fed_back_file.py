"""A file that is stepped with its memory outputs fed back to its memory inputs."""

from collections.abc import Callable

import numpy as np

from exploy.contract import Contract
from exploy.verify.rounding import RoundingSpread
from exploy.verify.stepped import Stepped, Values


class FedBackFile:
    """Steps a file, or what else is compared with an environment, and keeps its memories between the steps.

    Args:
        stepped: The file.
        contract: Its contract.
        on_run: Called with the step count and the values of the inputs and memories before each run.

    `memories` are the values that the next step gets; `start` has those that are stored in the file.
    `observation_outputs` are the outputs with observations.
    """

    def __init__(self, stepped: Stepped, contract: Contract, on_run: Callable[[int, Values], None]):
        self._stepped = stepped
        self._contract = contract
        self._on_run = on_run
        self._rounding = RoundingSpread(stepped, contract)
        self._were_set = True
        self.observation_outputs = contract.observation_outputs
        self.start: Values = {memory.input: memory.initial_value() for memory in contract.memories}
        self.memories: Values = dict(self.start)
        self.results: Values = {}

    def run(self, step_count: int, inputs: Values) -> None:
        """Compute `results` of one step, and take over the memories that it returns."""
        memories = dict(self.memories)
        values = inputs | memories
        self._on_run(step_count, values)
        self.results = self._stepped.run(step_count, values)
        self._rounding.record(step_count, inputs, memories if self._were_set else None, self.results)
        self._were_set = False
        for memory in self._contract.memories:
            self.memories[memory.input] = self.results[memory.output]

    def try_policy_step(self, values: Values) -> Values:
        """The results of a policy step from given inputs and memories; those that are missing are the file's own.

        Nothing is kept of it.
        """
        return self._stepped.run(0, self.memories | values)

    def set_memories(self, values: Values) -> None:
        """Set some memories to other values than the last step has returned."""
        self.memories |= values
        self._were_set = True

    def allowed(self, output: str) -> np.ndarray | float:
        """How far the elements of an output may be off by rounding, at the last step."""
        return self._rounding.allowed(output)
