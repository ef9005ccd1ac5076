"""The contract of a file that contains only a policy."""

import dataclasses
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from exploy.backends.artifact import Artifact
from exploy.backends.interface import Tensor
from exploy.capture.program import Program, ProgramMemory
from exploy.contract import Contract, Port, PortKind, StoredMemory, terms_of
from exploy.description.environment_contract import describe_memory, with_given_on_stop
from exploy.description.provenance import provenance_of
from exploy.environment.observations import OBSERVATIONS
from exploy.errors import MetadataError
from exploy.policy.policy import Policy, PolicyState

Names = Sequence[str] | Mapping[str, Sequence[str]]


def describe_policy(
    policy: Policy,
    program: Program,
    artifact: Artifact,
    obs_names: Names | None,
    action_names: Sequence[str] | None,
    rate_hz: float | None,
    model_source: dict[str, Any] | None,
    backend: str,
    on_stop: Any = None,
) -> Contract:
    """Build the contract of a policy file.

    Raises:
        MetadataError: If names or stop values do not fit the ports, or the rate is invalid.
    """
    kinds = {OBSERVATIONS: PortKind.OBSERVATIONS, policy.outputs[0]: PortKind.ACTIONS}
    kinds |= {item.name: item.kind for item in policy.inputs if item.kind is not None}
    inputs = [_port(value, program, kinds) for value in artifact.interface.inputs]
    outputs = [_port(value, program, kinds) for value in artifact.interface.outputs]
    of_inputs = _names_by_port(obs_names, policy)
    of_outputs = {} if action_names is None else {policy.outputs[0]: action_names}
    inputs = [_with_names("obs_names", port, of_inputs) for port in inputs]
    outputs = [_with_names("action_names", port, of_outputs) for port in outputs]
    observed = next((port for port in inputs if port.name == OBSERVATIONS), None)
    observation_names = (observed.names or ()) if observed is not None else ()
    return Contract(
        decimation=1,
        inputs=tuple(inputs),
        outputs=with_given_on_stop(outputs, _stops_by_port(on_stop, policy)),
        memories=tuple(_memory(memory, state) for memory, state in zip(program.memories, policy.states, strict=True)),
        observation_names=observation_names,
        observation_terms=terms_of(observation_names),
        random_outputs=tuple(name for name in program.policy_step_outputs if name in program.random_outputs),
        backend=backend,
        sim_dt=None if rate_hz is None else 1 / _validated_rate(rate_hz),
        provenance=provenance_of(None, model_source or {}, artifact.opset, artifact.ir_version, policy.libraries),
    )


def _memory(memory: ProgramMemory, state: PolicyState) -> StoredMemory:
    """The contract entry of a memory, with the initial value for one robot, which is used for any number of robots."""
    return describe_memory(dataclasses.replace(memory, initial=state.initial(1)))


def _port(value: Tensor, program: Program, kinds: Mapping[str, str]) -> Port:
    fed_back = {name for memory in program.memories for name in (memory.input_name, memory.output_name)}
    kind = PortKind.MEMORY if value.name in fed_back else kinds.get(value.name)
    return Port(value.name, value.dtype, value.shape, kind)


def _names_by_port(names: Names | None, policy: Policy) -> dict[str, Sequence[str]]:
    if names is None:
        return {}
    ports = [item.name for item in policy.inputs]
    if not isinstance(names, Mapping):
        if len(ports) > 1:
            raise MetadataError(
                f"The policy has the inputs {', '.join(ports)}. Pass obs_names as a dictionary from these names to "
                "lists of element names."
            )
        return {ports[0]: names}
    unknown = [name for name in names if name not in ports]
    if unknown:
        raise MetadataError(f"obs_names has {', '.join(unknown)}, but the policy has the inputs {', '.join(ports)}.")
    return dict(names)


def _stops_by_port(on_stop: Any, policy: Policy) -> Mapping[str, Any]:
    """Return stop values by output. A value without a name is for the actions."""
    if on_stop is None:
        return {}
    return on_stop if isinstance(on_stop, Mapping) else {policy.outputs[0]: on_stop}


def _with_names(what: str, port: Port, names: Mapping[str, Sequence[str]]) -> Port:
    if port.name not in names:
        return port
    given, width = names[port.name], port.shape[-1] if len(port.shape) > 1 else 1
    is_list = isinstance(given, list | tuple) and all(isinstance(name, str) and name for name in given)
    if not is_list or len(given) != width or len(set(given)) != len(given):
        raise MetadataError(
            f"{what} must be a list of {width} different strings, one for each element of {port.name!r} along its "
            f"last dimension, got {given!r}."
        )
    return dataclasses.replace(port, names=tuple(given))


def _validated_rate(rate_hz: Any) -> float:
    if isinstance(rate_hz, bool) or not isinstance(rate_hz, Real) or not 1e-9 < float(rate_hz) < 1e9:
        raise MetadataError(f"rate_hz must be the number of policy steps per second, such as 50, got {rate_hz!r}.")
    return float(rate_hz)
