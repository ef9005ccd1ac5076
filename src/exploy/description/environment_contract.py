"""The contract of a file that was exported from an environment."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from exploy.backends.artifact import Artifact
from exploy.backends.interface import Interface, Tensor
from exploy.capture.program import ACTIONS, FrozenTensor, Program, ProgramMemory
from exploy.contract import (
    STEP_COUNT,
    Contract,
    Frozen,
    ObservationTerm,
    Port,
    PortKind,
    StoredMemory,
    digest,
    encode_array,
    terms_of,
)
from exploy.contract.declared_stop import with_on_stop
from exploy.contract.limits import MAX_SECONDS, MIN_SECONDS
from exploy.description.port_semantics import with_semantics
from exploy.description.provenance import provenance_of
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.observations import OBSERVATIONS, validated_observation_names
from exploy.environment.tensor_copies import to_numpy
from exploy.environment.validation import validated_metadata
from exploy.errors import MetadataError


def build_contract(
    env: ExportableEnvironment,
    program: Program,
    artifact: Artifact,
    decimation: int,
    backend: str,
    model_source: dict[str, Any] | None = None,
    on_stop: Mapping[str, Any] | None = None,
) -> Contract:
    """Describe the ports, rates, memories, frozen values and provenance of a file.

    Raises:
        MetadataError: If the metadata of a component or `on_stop` does not fit its port.
    """
    interface, names = artifact.interface, validated_observation_names(env)
    outputs = [_with_names(_port(value, env, program, is_output=True), names) for value in interface.outputs]
    return Contract(
        decimation=decimation,
        inputs=tuple(_port(value, env, program, is_output=False) for value in interface.inputs),
        outputs=with_given_on_stop(outputs, on_stop),
        memories=tuple(describe_memory(memory) for memory in program.memories),
        frozen=tuple(_frozen(item) for item in program.frozen),
        unused_inputs=tuple(name for name in program.input_names if name not in program.used_inputs),
        sub_step_inputs=program.sub_step_inputs,
        observation_names=names.get(OBSERVATIONS, ()) if OBSERVATIONS in program.observation_outputs else (),
        observation_terms=_terms(interface, program, names),
        random_outputs=tuple(name for name in program.policy_step_outputs if name in program.random_outputs),
        coarse_outputs=program.coarse_outputs or None,
        sim_dt=_sim_dt(validated_metadata(env)),
        provenance=provenance_of(env, model_source or {}, artifact.opset, artifact.ir_version),
        backend=backend,
    )


def _port(value: Tensor, env: ExportableEnvironment, program: Program, *, is_output: bool) -> Port:
    own_kinds = {STEP_COUNT: PortKind.STEP_COUNT, ACTIONS: PortKind.ACTIONS}
    own_kinds |= dict.fromkeys(program.observation_outputs, PortKind.OBSERVATIONS)
    own_kinds |= {
        name: PortKind.MEMORY for memory in program.memories for name in (memory.input_name, memory.output_name)
    }
    example = program.examples.get(value.name)
    is_finite = example is None or not bool(np.isinf(to_numpy(example)).any())
    port = Port(value.name, value.dtype, value.shape, own_kinds.get(value.name), finite=is_finite)
    if port.kind is not None:
        return port
    return with_semantics(port, described_components(env), is_output=is_output)


def described_components(env: ExportableEnvironment) -> dict[str, Any]:
    """The metadata of components, groups and prefixes of names, with those that the environment gives."""
    described = {name: item for name, item in validated_metadata(env).items() if isinstance(item, dict)}
    return described | env.context_manager().metadata


def with_given_on_stop(outputs: Sequence[Port], on_stop: Mapping[str, Any] | None) -> tuple[Port, ...]:
    """Return outputs with the stop values that were given at export.

    Raises:
        MetadataError: If they do not fit the outputs.
    """
    try:
        return tuple(with_on_stop(outputs, {} if on_stop is None else on_stop))
    except ValueError as error:
        raise MetadataError(str(error)) from None


def _with_names(port: Port, names: Mapping[str, tuple[str, ...]]) -> Port:
    """Return the port of a group of observations with the names of its elements, if they fit."""
    own = names.get(port.name, ())
    is_group = port.kind == PortKind.OBSERVATIONS and port.name != OBSERVATIONS
    if not is_group or not port.shape or len(own) != port.shape[-1] or len(set(own)) < len(own):
        return port
    return dataclasses.replace(port, names=own)


def _terms(interface: Interface, program: Program, names: Mapping[str, tuple[str, ...]]) -> tuple[ObservationTerm, ...]:
    """The terms of all observations whose elements have one name each."""
    shapes = {value.name: value.shape for value in interface.outputs if value.name in program.observation_outputs}
    return tuple(
        term
        for name, shape in shapes.items()
        if shape and len(names.get(name, ())) == shape[-1]
        for term in terms_of(names[name], None if name == OBSERVATIONS else name)
    )


def _sim_dt(metadata: dict[str, Any]) -> float | None:
    """Seconds between two simulation steps, if the environment's metadata has a number that may be one; else None."""
    for key, seconds in (("sim_dt", float), ("update_rate", lambda rate: 1 / float(rate))):
        try:
            value = seconds(metadata[key])
        except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
            continue
        if MIN_SECONDS <= value <= MAX_SECONDS and not isinstance(metadata[key], bool):
            return value
    return None


def describe_memory(memory: ProgramMemory) -> StoredMemory:
    """The contract entry of a memory."""
    return StoredMemory(
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
