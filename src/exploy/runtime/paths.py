"""The two paths of a file, each ready to run: as sessions of their own where the file allows it, else as one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from exploy.contract import Contract, Port
from exploy.errors import ContractError, FileFormatError
from exploy.runtime.model_file import ModelFile
from exploy.runtime.releases import refuse_unreadable
from exploy.runtime.session import NUMPY_TYPES, load_onnxruntime, open_session
from exploy.runtime.split import PathModel, decimation_of, split_paths

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True)
class Path:
    """A session that computes one path.

    Args:
        session: The session; None where there is nothing to compute.
        inputs: The ports that it reads.
        outputs: For each port that the path computes, the name that the session has for it.
    """

    session: "onnxruntime.InferenceSession | None"
    inputs: frozenset[str]
    outputs: dict[str, str]


def open_paths(file: ModelFile, *, threads: int, spinning: bool, split: bool = True) -> tuple[Path, Path]:
    """Open the policy step and the sub-step of a file; both are the same where there is one rate.

    Args:
        file: The file.
        threads: Number of threads that compute.
        spinning: Let threads that wait for work keep their processor busy.
        split: Take the two paths apart where that is possible.

    Raises:
        ContractError: If the runtime cannot read the file, or the contract does not fit the graph.
    """
    refuse_unreadable(file.opset, file.ir_version, load_onnxruntime().__version__)
    options: dict[str, Any] = {"threads": threads, "spinning": spinning}
    contract = file.contract
    decimation = decimation_of(file.data)
    if decimation is not None and decimation != contract.decimation:
        raise ContractError(
            f"The contract says decimation {contract.decimation}, but the graph chooses its path every {decimation} "
            "ticks. Export the file again."
        )
    models = split_paths(file.data, contract) if split else None
    try:
        if models is None:
            session = open_session(file.data, **options)
            check_fit(contract, session)
            computed = _computed(contract)
            sub_step = _whole(session, computed) if computed else Path(None, frozenset(), {})
            return _whole(session, [port.name for port in contract.outputs]), sub_step
        paths = [_part(model, options) for model in models[: min(2, contract.decimation)]]
    except FileFormatError as error:
        raise ContractError(str(error)) from None
    _check_split_fit(contract, paths)
    return paths[0], paths[-1]


def check_fit(contract: Contract, session: "onnxruntime.InferenceSession") -> None:
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
        _refuse_differences(promised, found, what)


def _check_split_fit(contract: Contract, paths: list[Path]) -> None:
    """Refuse other types or shapes in sessions of paths, each of which has a part of the ports."""
    inputs = {port.name: _promised(port) for port in contract.inputs}
    outputs = {port.name: _promised(port) for port in contract.outputs}
    for path in paths:
        if path.session is None:
            continue
        found = {value.name: _found(value) for value in path.session.get_inputs()}
        _refuse_differences({name: inputs.get(name, "nothing") for name in found}, found, "inputs")
        values = {value.name: _found(value) for value in path.session.get_outputs()}
        computed = {port: values[name] for port, name in path.outputs.items()}
        _refuse_differences({name: outputs.get(name, "nothing") for name in computed}, computed, "outputs")


def _refuse_differences(promised: dict[str, str], found: dict[str, str], what: str) -> None:
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


def _part(model: PathModel, options: dict[str, Any]) -> Path:
    if not model.outputs:
        return Path(None, frozenset(), {})
    session = open_session(model.data, **options)
    return Path(session, _inputs(session), model.outputs)


def _whole(session: "onnxruntime.InferenceSession", outputs: list[str]) -> Path:
    return Path(session, _inputs(session), {name: name for name in outputs})


def _computed(contract: Contract) -> list[str]:
    """What a sub-step computes; all there is where there is one rate."""
    if contract.decimation == 1:
        return [port.name for port in contract.outputs]
    return [port.name for port in contract.outputs if port.name in contract.sub_step_inputs]


def _inputs(session: "onnxruntime.InferenceSession") -> frozenset[str]:
    return frozenset(value.name for value in session.get_inputs())
