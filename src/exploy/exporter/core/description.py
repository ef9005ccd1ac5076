"""What an exported file says about itself: its contract, and the documented metadata keys."""

import json
import math
from typing import Any

import numpy as np

import exploy
from exploy.contract import (
    METADATA_KEY,
    STEP_COUNT,
    Contract,
    Frozen,
    Kind,
    Memory,
    Port,
    digest,
    encode_array,
    terms_of,
)
from exploy.errors import MetadataError
from exploy.exporter.backends.artifact import Artifact
from exploy.exporter.backends.interface import Interface, Tensor
from exploy.exporter.capture.program import ACTIONS, OBSERVATIONS, FrozenTensor, MemoryPort, Program
from exploy.exporter.core.components import to_numpy
from exploy.exporter.core.environment_checks import checked_metadata, checked_observation_names
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from exploy.exporter.core.provenance import provenance_of
from exploy.exporter.core.semantics import with_semantics

_MAX_LISTED = 5


def build_contract(
    env: ExportableEnvironment,
    program: Program,
    artifact: Artifact,
    decimation: int,
    backend: str,
    model_source: dict[str, Any] | None = None,
) -> Contract:
    """Describe the ports, rates, memories, frozen values and provenance of a file.

    Raises:
        MetadataError: If the metadata of a component does not fit its port.
    """
    interface, names = artifact.interface, checked_observation_names(env)
    return Contract(
        decimation=decimation,
        inputs=tuple(_port(value, env, program) for value in interface.inputs),
        outputs=tuple(_port(value, env, program) for value in interface.outputs),
        memories=tuple(describe_memory(memory) for memory in program.memories),
        frozen=tuple(_frozen(item) for item in program.frozen),
        unused_inputs=tuple(name for name in program.input_names if name not in interface.input_names),
        sub_step_inputs=interface.sub_step_inputs,
        observation_names=names,
        observation_terms=terms_of(names) if len(names) == _width(interface, OBSERVATIONS) else (),
        random_outputs=tuple(name for name in program.default_outputs if name in program.random_outputs),
        sim_dt=_sim_dt(checked_metadata(env)),
        provenance=provenance_of(env, model_source or {}, artifact.opset, artifact.ir_version),
        backend=backend,
    )


def build_metadata(
    env: ExportableEnvironment, contract: Contract, model_source: dict[str, Any] | None
) -> dict[str, str]:
    """The metadata of a file: the environment's own keys, one for each component or group, and the model's.

    Raises:
        MetadataError: If a value cannot be stored as JSON, or two sources use one key for different things.
    """
    if not isinstance(model_source, dict | None):
        raise MetadataError(f"model_source must be a dictionary, got {type(model_source).__name__}.")
    properties = {
        "exploy_version": json.dumps(exploy.__version__),
        "decimation": str(contract.decimation),
        "model_source": to_json("model_source", model_source or {}),
        METADATA_KEY: contract.to_json(),
    }
    for key, value in checked_metadata(env).items():
        text = _storable(key, value if isinstance(value, str) else to_json(f"metadata()[{key!r}]", value))
        if properties.get(key, text) != text:
            raise MetadataError(
                f"metadata() says {key} = {text}, but the file says {properties[key]}. Leave the key out of metadata()."
            )
        properties[key] = text
    for name, value in env.context_manager().metadata.items():
        if name in properties:
            raise MetadataError(
                f"{name!r} is both a key of the model's metadata and a component with metadata. Rename one of them."
            )
        properties[name] = to_json(f"the metadata of {name!r}", value)
    return properties


def frozen_line(contract: Contract) -> str | None:
    """One line that says what the file keeps as constants without having been told to; None if there is nothing."""
    frozen = [item for item in contract.frozen if item.declared is None]
    if not frozen:
        return None
    listed = ", ".join(f"{item.name} {list(item.shape)}" for item in frozen[:_MAX_LISTED])
    more = f" and {len(frozen) - _MAX_LISTED} more" if len(frozen) > _MAX_LISTED else ""
    return f"Frozen with the present value: {listed}{more}."


def summary(contract: Contract) -> str:
    """The ports and frozen values of a file, a line each."""
    groups = (("in", contract.inputs), ("out", contract.outputs), ("frozen", contract.frozen))
    return "\n".join(
        f"  {kind:6} {item.name:40} {item.dtype:8} {list(item.shape)}" for kind, items in groups for item in items
    )


def _port(value: Tensor, env: ExportableEnvironment, program: Program) -> Port:
    own_kinds = {STEP_COUNT: Kind.STEP_COUNT, ACTIONS: Kind.ACTIONS, OBSERVATIONS: Kind.OBSERVATIONS}
    own_kinds |= {name: Kind.MEMORY for memory in program.memories for name in (memory.input_name, memory.output_name)}
    example = program.examples.get(value.name)
    is_finite = example is None or not bool(np.isinf(to_numpy(example)).any())
    port = Port(value.name, value.dtype, value.shape, own_kinds.get(value.name), finite=is_finite)
    if port.kind is not None:
        return port
    described = {name: item for name, item in checked_metadata(env).items() if isinstance(item, dict)}
    return with_semantics(port, described | env.context_manager().metadata)


def _width(interface: Interface, name: str) -> int | str | None:
    """The size of the last dimension of an output."""
    shape = next((value.shape for value in interface.outputs if value.name == name), None)
    return shape[-1] if shape else None


def _sim_dt(metadata: dict[str, Any]) -> float | None:
    """Seconds between two simulation steps, where the environment's metadata has a positive number for them."""
    for key, seconds in (("sim_dt", float), ("update_rate", lambda rate: 1 / float(rate))):
        try:
            value = seconds(metadata[key])
        except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
            continue
        if math.isfinite(value) and value > 0 and not isinstance(metadata[key], bool):
            return value
    return None


def describe_memory(memory: MemoryPort) -> Memory:
    """What the contract says of a memory."""
    return Memory(
        name=memory.name,
        input=memory.input_name,
        output=memory.output_name,
        initial=encode_array(to_numpy(memory.initial)),
        carried=memory.carried,
        written_by_observations=memory.written_by_observations,
    )


def _frozen(item: FrozenTensor) -> Frozen:
    elements = None if item.elements is None else item.elements.tolist()
    return Frozen(item.name, str(item.value.dtype), item.shape, digest(item.value), elements, item.declared)


def to_json(what: str, value: Any) -> str:
    """A value as JSON has it.

    Raises:
        MetadataError: If it cannot be stored so.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise MetadataError(
            f"{what} cannot be stored as JSON: {error}. Use plain numbers, strings, lists and dictionaries "
            "(tensor.tolist() for tensors), and no NaN or Infinity."
        ) from error


def _storable(key: str, text: str) -> str:
    """A text that UTF-8, and so the file, can hold."""
    try:
        f"{key}{text}".encode()
    except UnicodeEncodeError as error:
        raise MetadataError(f"metadata()[{key!r}] cannot be stored as UTF-8: {error}.") from error
    return text
