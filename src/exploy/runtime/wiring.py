"""Copies inputs from the robot's order to the file's order, and outputs back."""

from collections.abc import Mapping

import numpy as np

from exploy.contract import Port
from exploy.runtime.arena import Arena
from exploy.runtime.element_order import flat_index
from exploy.runtime.engine import INPUT, OUTPUT, Engine, Key

Copy = tuple[np.ndarray, np.ndarray]
Permutation = tuple[np.ndarray, np.ndarray, np.ndarray]


def output_arena(engine: Engine) -> Arena[Key]:
    """Create the arrays for the outputs that users read, in the order of the engine's memory: guarded outputs first."""
    keys = [(OUTPUT, name) for name in engine.outputs]
    keys.sort(key=lambda key: key not in engine.guarded.arrays)
    return Arena({key: (engine.buffer(key).dtype, engine.buffer(key).shape) for key in keys})


class Wiring:
    """The copies that a tick makes before and after it runs, as few as possible.

    Inputs in the file's order are read directly from the arrays that the user writes to. Outputs are copied to the
    arrays that the user reads, so values that a guard rejects are never visible.

    Args:
        engine: The buffers that sessions read and write; its steps are bound again.
        ports: All inputs and outputs, with the element names in the robot's order.
        released: The arrays that the user reads outputs from.
    """

    def __init__(self, engine: Engine, ports: Mapping[str, Port], released: Arena[Key]):
        self._engine = engine
        self._ports = ports
        self.gathers: list[Permutation] = []
        self.copies: list[Copy] = []
        self.scatters: list[Permutation] = []
        self.inputs = self._wire_inputs()
        engine.bind_inputs(self.inputs)
        for arena in (engine.guarded, engine.unguarded):
            self._wire_outputs(arena, released)

    def in_file_order(self, output: Port, value: np.ndarray) -> np.ndarray:
        """Convert a value for an output from the robot's order to the file's."""
        index = flat_index(value.shape, self._ports[output.name], output)
        return np.take(value, index).reshape(value.shape)

    def _wire_inputs(self) -> dict[str, np.ndarray]:
        """Return the arrays that the sessions read: the user's arrays, or copies if any of them is in another order."""
        engine, ports = self._engine, self._engine.parts.inputs
        if not any(self._is_moved(port) for port in ports):
            return dict(engine.inputs)
        layouts = {(INPUT, name): (array.dtype, array.shape) for name, array in engine.inputs.items()}
        ordered: Arena[Key] = Arena(layouts)
        for port in ports:
            source, target = engine.inputs[port.name], ordered.arrays[INPUT, port.name]
            index = flat_index(source.shape, self._ports[port.name], port)
            self.gathers.append((source.reshape(-1), index, target.reshape(-1)))
        return {name: ordered.arrays[INPUT, name] for name in engine.inputs}

    def _wire_outputs(self, arena: Arena[Key], released: Arena[Key]) -> None:
        ports = [port for port in self._engine.parts.outputs if (OUTPUT, port.name) in arena.arrays]
        keys = [(OUTPUT, port.name) for port in ports]
        if not any(self._is_moved(port) for port in ports):
            targets = released.section(keys)
            for dtype, span in arena.section(keys).items():
                self.copies.append((released.flat[dtype][targets[dtype]], arena.flat[dtype][span]))
            return
        for key, port in zip(keys, ports, strict=True):
            source, target = arena.arrays[key], released.arrays[key]
            index = flat_index(source.shape, port, self._ports[port.name])
            self.scatters.append((source.reshape(-1), index, target.reshape(-1)))

    def _is_moved(self, port: Port) -> bool:
        return self._ports[port.name].names != port.names
