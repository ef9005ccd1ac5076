"""Reads the components of an environment by the names that the ports of its file have."""

from typing import Any

import numpy as np

from exploy.environment.components import Memory
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
        """The three functions, for those who look at the environment inside of a step."""
        return Readers(self.inputs, self.memories, self.outputs)

    def inputs(self) -> Values:
        """The Inputs that are not memories."""
        inputs = self._manager.get_input_components()
        return {item.input_name: to_numpy(item.fetch()) for item in inputs if item.input_name not in self._start}

    def outputs(self) -> Values:
        """The Outputs and memories, by the names of output ports."""
        return {item.output_name: self._read(item) for item in self._manager.get_output_components()}

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
