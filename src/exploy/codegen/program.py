"""The C program of a file: its steps, its constants, and the names of everything in them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from exploy.codegen import scratch
from exploy.codegen.graph import read_steps
from exploy.codegen.names import Names, program_name, reserved_names
from exploy.codegen.step_source import Places, PortField, StepSource, write_step
from exploy.codegen.tables import Tables
from exploy.contract import Contract, Port
from exploy.runtime.engine import Parts
from exploy.runtime.onnx.outline import Outline

POLICY_STEP, SUB_STEP = "policy_step", "sub_step"


@dataclass(frozen=True)
class MemoryField:
    """A memory as C knows it: its field, and the ports that read and write it."""

    name: str
    field: str
    input: str
    output: PortField
    start: np.ndarray


@dataclass(frozen=True)
class Program:
    """Everything that the C files of a policy are written from.

    Args:
        name: The prefix of all global names.
        contract: What the file says about itself.
        ports: All ports, by name.
        inputs: The ports that the robot gives.
        outputs: The ports that the robot gets.
        memories: What is kept between ticks.
        step_counts: The ports that get the tick number, and those that get whether it is the first tick.
        steps: The policy step, and the sub-step of a file with two rates.
        tables: The constants.
        kernels: The names of the kernels that the steps call.
    """

    name: str
    contract: Contract
    ports: Mapping[str, PortField]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    memories: tuple[MemoryField, ...]
    step_counts: frozenset[str]
    firsts: frozenset[str]
    steps: Mapping[str, StepSource]
    tables: Tables
    kernels: frozenset[str]

    @property
    def scratch(self) -> dict[np.dtype, int]:
        """How much memory for intermediate results both steps need."""
        return scratch.merged([step.scratch for step in self.steps.values()])

    @property
    def uses_status(self) -> bool:
        """Whether a step can end with a status other than OK."""
        return any(step.uses_status for step in self.steps.values())


def write_program(
    data: bytes, contract: Contract, name: str, *, outline: Outline | None = None, places: Places | None = None
) -> Program:
    """Write the steps of an ONNX file as C.

    Args:
        data: The bytes of the file.
        contract: What it says about itself.
        name: The name of the program; made into one that C takes.
        outline: The parsed bytes, if they were parsed already.
        places: The lines of the environment that operators come from, by the names of operators.

    Raises:
        LoweringError: If C code cannot be written for it.
    """
    plain = program_name(name)
    parts = Parts.of(contract)
    fields = Names()
    ports = {port.name: PortField.of(port, fields.give(port.name)) for port in (*contract.inputs, *contract.outputs)}
    kernels: set[str] = set()
    tables = Tables(plain, Names((*reserved_names(plain), *(item.field for item in ports.values()))))
    graphs = read_steps(data, contract, outline)
    written = [write_step(graph, ports, tables, kernels, places or {}) for graph in graphs]
    memories = Names()
    return Program(
        name=plain,
        contract=contract,
        ports=ports,
        inputs=parts.inputs,
        outputs=parts.outputs,
        memories=tuple(
            MemoryField(
                item.name,
                memories.give(item.name),
                item.input,
                ports[item.output],
                np.broadcast_to(item.initial_value(), ports[item.output].shape),
            )
            for item in contract.memories
        ),
        step_counts=frozenset(port.name for port in parts.step_counts),
        firsts=frozenset(port.name for port in parts.is_init),
        steps=dict(zip((POLICY_STEP, SUB_STEP), written, strict=False)),
        tables=tables,
        kernels=frozenset(kernels),
    )
