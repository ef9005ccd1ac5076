"""Reads the components of an environment by the names that the ports of its file have."""

from functools import cached_property
from typing import Any

import numpy as np

from exploy.environment.components import Memory, Output
from exploy.environment.context_manager import ContextManager
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import ActorError
from exploy.verify.step_observer import Readers
from exploy.verify.stepped import Values


class EnvironmentReader:
    """Reads Inputs, Outputs and memories; each value is a copy.

    Args:
        manager: The components.
        start: The start values of memories, for the states of an actor that has dropped them at a reset.
    """

    def __init__(self, manager: ContextManager, start: Values):
        self._manager = manager
        self._start = start

    @property
    def readers(self) -> Readers:
        """The functions, for those who look at the environment inside of a step."""
        return Readers(self.inputs, self.memories, self.outputs, self.outputs_alone)

    def inputs(self) -> Values:
        """The Inputs that are not memories."""
        inputs = self._manager.get_input_components()
        return {item.input_name: to_numpy(item.fetch()) for item in inputs if item.input_name not in self._start}

    def outputs(self) -> Values:
        """The Outputs and memories, by the names of output ports."""
        return {item.output_name: self._read(item) for item in self._manager.get_output_components()}

    def outputs_alone(self) -> Values:
        """The Outputs that are not memories."""
        return {item.output_name: self._read(item) for item in self._outputs}

    @cached_property
    def kept_outputs(self) -> set[str]:
        """Outputs with a tensor of their own: a callback that computes a new one follows the simulator."""
        pairs = [(item.output_name, item.fetch(), item.fetch()) for item in self._outputs]
        return {name for name, one, two in pairs if one.data_ptr() == two.data_ptr()}

    @property
    def _outputs(self) -> list[Output]:
        return [item for item in self._manager.get_output_components() if not isinstance(item, Memory)]

    def memories(self) -> Values:
        """The memories, by the names of input ports."""
        return {item.input_name: self._read(item) for item in self._manager.get_memory_components()}

    def _read(self, item: Any) -> np.ndarray:
        try:
            value: np.ndarray = item.value_numpy
        except ActorError:
            if not isinstance(item, Memory):
                raise
            return self._start[item.input_name]
        return value
