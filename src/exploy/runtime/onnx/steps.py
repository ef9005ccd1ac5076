"""The policy step and the sub-step of an ONNX file: as sessions of their own where the file allows it, else as one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from exploy.contract import Contract, Port
from exploy.errors import ContractError, FileFormatError
from exploy.runtime.execution_backend import ExecutionBackend
from exploy.runtime.onnx.graph_checks import require_sound
from exploy.runtime.onnx.outline import Outline
from exploy.runtime.onnx.releases import require_readable
from exploy.runtime.onnx.session import NUMPY_TYPES, load_onnxruntime, open_session
from exploy.runtime.onnx.split import StepModel, split_steps
from exploy.runtime.step_runner import Arrays, IdleStep, StepRunner

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True)
class OnnxStep:
    """A session that computes one step.

    Args:
        session: The session.
        names: For each port that the step computes, the name that the session has for it.
    """

    session: "onnxruntime.InferenceSession"
    names: dict[str, str]

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The ports that it reads."""
        return frozenset(value.name for value in self.session.get_inputs())

    @cached_property
    def outputs(self) -> frozenset[str]:
        """The ports that it computes."""
        return frozenset(self.names)

    @property
    def run(self) -> Callable[[Any], None]:
        """Compute what `bind()` has prepared."""
        run: Callable[[Any], None] = self.session.run_with_iobinding
        return run

    def bind(self, reads: Arrays, writes: Arrays) -> Any:
        """Bind arrays to the session."""
        binding = self.session.io_binding()
        for name in self.inputs:
            array = reads[name]
            binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        for port, name in self.names.items():
            array = writes[port]
            binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        return binding


class OnnxExecution(ExecutionBackend):
    """Runs `.onnx` files by onnxruntime."""

    name = "onnx"

    def open_steps(self, data: bytes, contract: Contract, **options: Any) -> tuple[StepRunner, StepRunner]:
        """Open a file in onnxruntime; see `open_steps()`."""
        return open_steps(data, contract, **options)


def open_steps(
    data: bytes,
    contract: Contract,
    *,
    threads: int,
    spinning: bool,
    split: bool = True,
    outline: Outline | None = None,
) -> tuple[StepRunner, StepRunner]:
    """Open the policy step and the sub-step of a file; both are the same where there is one rate.

    Args:
        data: The bytes of the file.
        contract: What it says about itself.
        threads: Number of threads that compute.
        spinning: Let threads that wait for work keep their processor busy.
        split: Take the two steps apart where that is possible.
        outline: The parsed bytes, if they were parsed and checked already.

    Raises:
        ContractError: If the runtime cannot read the file, or the contract does not fit the graph.
    """
    if outline is None:
        outline = Outline.parse(data)
        require_sound(outline)
    require_readable(outline.opset, outline.ir_version, load_onnxruntime().__version__)
    options: dict[str, Any] = {"threads": threads, "spinning": spinning}
    if outline.decimation not in (None, contract.decimation):
        raise ContractError(
            f"The contract has decimation {contract.decimation}, but the graph runs its policy step every "
            f"{outline.decimation} ticks. Export the file again."
        )
    models = split_steps(outline, contract) if split else None
    try:
        if models is None:
            session = open_session(data, **options)
            require_fit(contract, session)
            computed = _computed(contract)
            sub_step = _whole(session, computed) if computed else IdleStep()
            return _whole(session, [port.name for port in contract.outputs]), sub_step
        steps = [_part(model, options) for model in models[: min(2, contract.decimation)]]
    except FileFormatError as error:
        raise ContractError(str(error)) from None
    _require_split_fit(contract, steps)
    return steps[0], steps[-1]


def require_fit(contract: Contract, session: "onnxruntime.InferenceSession") -> None:
    """Refuse a contract whose ports are not those of the graph.

    Raises:
        ContractError: With the ports that differ.
    """
    for ports, values, what in (
        (contract.inputs, session.get_inputs(), "inputs"),
        (contract.outputs, session.get_outputs(), "outputs"),
    ):
        promised = {port.name: _promised(port) for port in ports}
        found = {value.name: _found(value) for value in values}
        _require_same_ports(promised, found, what)


def _require_split_fit(contract: Contract, steps: list[OnnxStep | IdleStep]) -> None:
    """Refuse other types or shapes in sessions of steps, each of which has a part of the ports."""
    inputs = {port.name: _promised(port) for port in contract.inputs}
    outputs = {port.name: _promised(port) for port in contract.outputs}
    for step in steps:
        if isinstance(step, IdleStep):
            continue
        found = {value.name: _found(value) for value in step.session.get_inputs()}
        _require_same_ports({name: inputs.get(name, "nothing") for name in found}, found, "inputs")
        values = {value.name: _found(value) for value in step.session.get_outputs()}
        computed = {port: values[name] for port, name in step.names.items()}
        _require_same_ports({name: outputs.get(name, "nothing") for name in computed}, computed, "outputs")


def _require_same_ports(promised: dict[str, str], found: dict[str, str], what: str) -> None:
    names = [*promised, *(name for name in found if name not in promised)]
    differences = [
        f"{name} ({promised.get(name) or 'not'} in the contract, {found.get(name) or 'not'} in the graph)"
        for name in names
        if promised.get(name) != found.get(name)
    ]
    if differences:
        raise ContractError(
            f"The contract does not fit the graph of its own file; {what} that differ: {', '.join(differences)}. "
            "Export the file again."
        )


def _promised(port: Port) -> str:
    return f"{port.dtype} {list(port.shape)}"


def _found(value: Any) -> str:
    dtype = NUMPY_TYPES.get(value.type)
    return f"{np.dtype(dtype) if dtype else value.type} {list(value.shape)}"


def _part(model: StepModel, options: dict[str, Any]) -> OnnxStep | IdleStep:
    return OnnxStep(open_session(model.data, **options), model.outputs) if model.outputs else IdleStep()


def _whole(session: "onnxruntime.InferenceSession", outputs: list[str]) -> OnnxStep:
    return OnnxStep(session, {name: name for name in outputs})


def _computed(contract: Contract) -> list[str]:
    """What a sub-step computes; all there is where there is one rate."""
    if contract.decimation == 1:
        return [port.name for port in contract.outputs]
    return [port.name for port in contract.outputs if port.name in contract.sub_step_inputs]
