"""Runs archives of C by the library in them."""

import ctypes
from typing import Any

from exploy.contract import Contract
from exploy.errors import ContractError
from exploy.runtime.archives.layout import members_of
from exploy.runtime.c.description import FILE, POLICY_STEP, SUB_STEP, Description
from exploy.runtime.c.library import load_library, size, step_function, text
from exploy.runtime.c.steps import CStep
from exploy.runtime.execution_backend import ExecutionBackend
from exploy.runtime.file_errors import refused
from exploy.runtime.step_runner import IdleStep, StepRunner


class CExecution(ExecutionBackend):
    """Runs `.c.zip` files by the library in them."""

    name = "c"

    def open_steps(self, data: bytes, contract: Contract, **options: Any) -> tuple[StepRunner, StepRunner]:
        """Load the library; see `open_steps()`."""
        return open_steps(data, contract, **options)


def open_steps(data: bytes, contract: Contract, **options: Any) -> tuple[StepRunner, StepRunner]:
    """Load the library of an archive; both steps are the same if there is only one rate.

    Args:
        data: The bytes of the file, which may run code.
        contract: The contract of the file.
        **options: Not used: a step is computed by one thread.

    Raises:
        ContractError: If there is no library for this machine, or header, library and contract are not of one program.
    """
    with refused("The archive", "read"):
        members = stored_members(data)
        description = Description.from_json(members[FILE])
    if description.library is None:
        raise ContractError(
            "The file has the sources of a program but no library: no compiler was found when it was made, and nobody "
            "has run its self-test. Install a compiler and make it again: exploy compile"
        )
    _require_ports(description, contract)
    with refused("The archive", "read"):
        code = members[description.library.file]
    library = load_library(code, description.library)
    found = {description.program, text(library, f"{description.name}_digest")}
    if found != {contract.program}:
        raise ContractError(
            f"The library in the file is not that of its contract: it has the digest "
            f"{', '.join(sorted(item[:12] for item in found))}…, and the contract has {str(contract.program)[:12]}…. "
            "Make the file again: exploy compile"
        )
    steps = {name: _step(library, description, name) for name in description.steps}
    policy_step = steps[POLICY_STEP]
    return policy_step, steps.get(SUB_STEP) or (policy_step if contract.decimation == 1 else IdleStep())


def stored_members(data: bytes) -> dict[str, bytes]:
    """The members of an archive that are not packed, by their names without the folder.

    Raises:
        LayoutError: If it is an archive that readers could understand differently.
    """
    return {
        member.name.partition("/")[2]: data[member.start : member.stop]
        for member in members_of(data)
        if not member.is_packed
    }


def _step(library: ctypes.CDLL, description: Description, name: str) -> CStep:
    ports = description.steps[name]
    function = step_function(library, f"{description.name}_{name}_at")
    return CStep(function, ports.inputs, ports.outputs, size(library, f"{description.name}_scratch_bytes"))


def _require_ports(description: Description, contract: Contract) -> None:
    """Refuse steps of other ports, and ports whose sizes are chosen at load, which a library cannot have.

    Raises:
        ContractError: If there are such.
    """
    inputs, outputs = ({port.name for port in ports} for ports in (contract.inputs, contract.outputs))
    for ports in description.steps.values():
        if not set(ports.inputs) <= inputs or not set(ports.outputs) <= outputs:
            raise ContractError("The steps of the file have other ports than its contract. Export it again.")
    if any(isinstance(size, str) for port in (*contract.inputs, *contract.outputs) for size in port.shape):
        raise ContractError("The contract of the file has open sizes, and its library none. Export it again.")
