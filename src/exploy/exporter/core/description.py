"""What an exported file says about itself: its contract, and the documented metadata keys."""

import contextlib
import json
import platform
from importlib import metadata as package_metadata
from typing import Any

import onnx_ir as ir

import exploy
from exploy.contract import METADATA_KEY, Contract, Frozen, Memory, Port, digest, encode_array
from exploy.errors import MetadataError
from exploy.exporter.backends.onnx.two_paths import TwoPaths
from exploy.exporter.capture.program import FrozenTensor, MemoryPort, Program
from exploy.exporter.core.components import to_numpy
from exploy.exporter.core.environment_checks import checked_metadata, checked_observation_names
from exploy.exporter.core.exportable_environment import ExportableEnvironment

_MAX_LISTED = 5
_VERSIONED = ("torch", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "numpy")


def build_contract(env: ExportableEnvironment, program: Program, paths: TwoPaths, decimation: int) -> Contract:
    """Describe the ports, rates, memories and frozen values of a file."""
    return Contract(
        decimation=decimation,
        inputs=tuple(_port(value) for value in paths.model.graph.inputs),
        outputs=tuple(_port(value) for value in paths.model.graph.outputs),
        memories=tuple(describe_memory(memory) for memory in program.memories),
        frozen=tuple(_frozen(item) for item in program.frozen),
        unused_inputs=tuple(name for name in program.input_names if name not in paths.used_inputs),
        sub_step_inputs=paths.sub_step_inputs,
        observation_names=checked_observation_names(env),
        random_outputs=tuple(name for name in program.default_outputs if name in program.random_outputs),
        versions=_versions(),
    )


def build_metadata(
    env: ExportableEnvironment, contract: Contract, model_source: dict[str, Any] | None
) -> dict[str, str]:
    """The metadata of a file: the environment's own keys, one for each component or group, and the model's.

    Raises:
        MetadataError: If a value cannot be stored as JSON, or two sources use one key for different things.
    """
    properties = {
        "exploy_version": json.dumps(exploy.__version__),
        "decimation": str(contract.decimation),
        "model_source": _to_json("model_source", model_source or {}),
        METADATA_KEY: contract.to_json(),
    }
    for key, value in checked_metadata(env).items():
        text = _storable(key, value if isinstance(value, str) else _to_json(f"metadata()[{key!r}]", value))
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
        properties[name] = _to_json(f"the metadata of {name!r}", value)
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


def _port(value: ir.Value) -> Port:
    assert value.name is not None and value.dtype is not None and value.shape is not None
    return Port(value.name, str(value.dtype.numpy()), tuple(int(size) for size in value.shape.numpy()))


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


def _to_json(what: str, value: Any) -> str:
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


def _versions() -> dict[str, str]:
    versions = {"exploy": exploy.__version__, "python": platform.python_version()}
    for name in _VERSIONED:
        with contextlib.suppress(package_metadata.PackageNotFoundError):
            versions[name] = package_metadata.version(name)
    return versions
