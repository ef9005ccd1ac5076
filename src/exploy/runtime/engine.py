"""Runs a file tick by tick on buffers that are bound once: only the two rates and the memories."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from exploy.contract import Contract, Port, PortKind, StoredMemory
from exploy.errors import ContractError
from exploy.runtime.arena import Arena, Layout
from exploy.runtime.step_runner import StepRunner

Key = tuple[str, str]  # what the buffer is for, and the name of its port
INPUT, OUTPUT = "input", "output"
_MEMORY = ("memory 0", "memory 1")
_WARM_UP_RUNS = 3


class Step(NamedTuple):
    """One tick: run a session on bound buffers, then continue with the step at index `next`."""

    run: Callable[[Any], None]
    binding: Any
    is_policy_step: bool
    next: int


@dataclass(frozen=True)
class Parts:
    """The ports of a file, grouped by how a controller uses them."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    step_counts: tuple[Port, ...]
    is_init: tuple[Port, ...]

    @classmethod
    def of(cls, contract: Contract) -> "Parts":
        """Group the ports of a contract.

        Raises:
            ContractError: If a port would have no value.
        """
        fed_back = {memory.input for memory in contract.memories} | {memory.output for memory in contract.memories}
        mine = [port for port in contract.inputs if port.name not in fed_back]
        orphans = [port.name for port in mine if port.kind == PortKind.MEMORY]
        if orphans:
            raise ContractError(
                f"The contract has no memory for the inputs {', '.join(orphans)}. Export the file again."
            )
        if contract.decimation > 1 and not any(port.kind == PortKind.STEP_COUNT for port in mine):
            raise ContractError("The contract has two rates, but no step count port. Export the file again.")
        return cls(
            inputs=tuple(port for port in mine if port.kind not in PortKind.FILLED_BY_THE_CONTROLLER),
            outputs=tuple(port for port in contract.outputs if port.name not in fed_back),
            step_counts=tuple(port for port in mine if port.kind == PortKind.STEP_COUNT),
            is_init=tuple(port for port in mine if port.kind == PortKind.IS_INIT),
        )


class Engine:
    """Buffers for all ports of a file, and the steps that run it on them.

    Each memory has two buffers: a tick reads one and writes the other, and the next tick swaps them. There is one step
    per phase of the policy period and state of the memories. The steps are created once, so nothing is copied.

    Args:
        contract: The contract of the file.
        runners: The policy step and the sub-step.
        sizes: Values for the named sizes of the contract, by name; 1 for each size that is not given.

    Raises:
        ContractError: If a memory of the contract cannot be fed back.
    """

    def __init__(self, contract: Contract, runners: tuple[StepRunner, StepRunner], sizes: Mapping[str, int]):
        self.parts = Parts.of(contract)
        self._contract = contract
        self._runners = runners
        self._sizes = sizes
        self._memories = _validated_memories(contract, self._layout)
        finite = {port.name: port.finite for port in (*contract.inputs, *contract.outputs)}
        layouts: dict[Key, Layout] = {(INPUT, port.name): self._layout(port) for port in self.parts.inputs}
        layouts |= {(OUTPUT, port.name): self._layout(port) for port in self.parts.outputs}
        for name, value in self._memories.items():
            layouts |= {(copy, name): (value.dtype, value.shape) for copy in _MEMORY}
        for memory in contract.memories:
            starts_finite = bool(np.isfinite(self._memories[memory.name]).all())
            finite[memory.name] = starts_finite and finite.get(memory.input, True) and finite[memory.output]
        guarded = {(what, name): finite[name] for what, name in layouts}
        self.guarded = Arena({key: layout for key, layout in layouts.items() if guarded[key]})
        self.unguarded = Arena({key: layout for key, layout in layouts.items() if not guarded[key]})
        self.inputs = {port.name: self.buffer((INPUT, port.name)) for port in self.parts.inputs}
        self.outputs = {port.name: self.buffer((OUTPUT, port.name)) for port in self.parts.outputs}
        self._bound: dict[str, np.ndarray] | None = None
        self._fixed: list[np.ndarray] = []
        self.steps: list[Step] = []
        self.bind_inputs(self.inputs)
        self.start()

    def buffer(self, key: Key) -> np.ndarray:
        """Return the buffer of a port."""
        return self.guarded.arrays[key] if key in self.guarded.arrays else self.unguarded.arrays[key]

    def start(self) -> None:
        """Restore the initial values of all memories, as the first step expects them."""
        for name, value in self._memories.items():
            for copy in _MEMORY:
                self.buffer((copy, name))[...] = value

    def warm_up(self) -> None:
        """Run both steps a few times, so that the first tick is as fast as later ones; then set float inputs to NaN."""
        for step in self.steps[: min(len(self.steps), self._contract.decimation + 1)][-2:] * _WARM_UP_RUNS:
            with contextlib.suppress(Exception):  # zeros may be invalid inputs
                step.run(step.binding)
        for buffer in self.inputs.values():
            if buffer.dtype.kind == "f":
                buffer.fill(np.nan)

    def port(self, name: str) -> Port:
        """Return the port with a name, in the file's order."""
        return next(port for port in (*self.parts.inputs, *self.parts.outputs) if port.name == name)

    def bind_inputs(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Create the steps so that the sessions read these arrays as inputs, unless they already do."""
        if self._bound is not None and all(self._bound[name] is array for name, array in inputs.items()):
            return
        self._bound = dict(inputs)
        self._fixed = []
        self.steps = self._make_steps(inputs)

    def _make_steps(self, inputs: Mapping[str, np.ndarray]) -> list[Step]:
        """Create the first step, then a cycle of all phases and memory states; the last step leads to the second."""
        decimation = self._contract.decimation
        current = dict.fromkeys(self._memories, 0)
        bindings: dict[Any, Any] = {}
        steps = []
        count = 1 + 2 * decimation
        for tick in range(count):
            phase = tick % decimation
            runner = self._runners[1 if phase else 0]
            counts = any(port.name in runner.inputs for port in self.parts.step_counts)
            state = (tick == 0, phase if counts else bool(phase), tuple(current.values()))
            if state not in bindings:
                bindings[state] = self._binding(runner, inputs, current, phase, tick == 0)
            following = 1 if tick == count - 1 else tick + 1
            steps.append(Step(runner.run, bindings[state], phase == 0, following))
            for memory in self._contract.memories:
                if memory.output in runner.outputs:
                    current[memory.name] = 1 - current[memory.name]
        return steps

    def _binding(
        self, runner: StepRunner, inputs: Mapping[str, np.ndarray], current: dict[str, int], phase: int, is_first: bool
    ) -> Any:
        reads = dict(inputs)
        reads |= {port.name: self._keep(port, phase) for port in self.parts.step_counts}
        reads |= {port.name: self._keep(port, is_first) for port in self.parts.is_init}
        writes = dict(self.outputs)
        for memory in self._contract.memories:
            reads[memory.input] = self.buffer((_MEMORY[current[memory.name]], memory.name))
            writes[memory.output] = self.buffer((_MEMORY[1 - current[memory.name]], memory.name))
        return runner.bind(reads, writes)

    def _keep(self, port: Port, value: Any) -> np.ndarray:
        """Create an array filled with one value, and keep it alive as long as the steps that use it."""
        dtype, shape = self._layout(port)
        self._fixed.append(np.full(shape, value, dtype=dtype))
        return self._fixed[-1]

    def _layout(self, port: Port) -> Layout:
        return np.dtype(port.dtype), port.fixed_shape(self._sizes)


def _validated_memories(contract: Contract, layout: Callable[[Port], Layout]) -> dict[str, np.ndarray]:
    """Return the initial value of each memory, in the shape of its ports."""
    inputs = {port.name: port for port in contract.inputs}
    outputs = {port.name: port for port in contract.outputs}
    values = {}
    for memory in contract.memories:
        if memory.output not in outputs:
            raise _misfit(memory, f"the file has no output {memory.output!r}")
        dtype, shape = layout(outputs[memory.output])
        read = inputs.get(memory.input)
        if read is not None and layout(read) != (dtype, shape):
            raise _misfit(memory, f"{memory.input!r} and {memory.output!r} have different dtypes or shapes")
        initial = memory.initial_value()
        try:
            values[memory.name] = np.broadcast_to(initial, shape)
        except ValueError:
            raise _misfit(memory, f"its initial value has shape {initial.shape}, but its port has {shape}") from None
        if initial.dtype != dtype:
            raise _misfit(memory, f"its initial value has dtype {initial.dtype}, but its port has {dtype}")
    return values


def _misfit(memory: StoredMemory, reason: str) -> ContractError:
    return ContractError(f"The memory {memory.name!r} of the contract cannot be fed back: {reason}. Export again.")
