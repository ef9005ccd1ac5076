"""Turns a live environment and its actor into a Program, and leaves both as they were."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from exploy.errors import ActorError, ComponentError, EnvironmentError, ExployError
from exploy.exporter.capture.aliases import refuse_overlapping_arguments, tie_aliases
from exploy.exporter.capture.escape_guard import EscapeGuard
from exploy.exporter.capture.frozen import frozen_tensors
from exploy.exporter.capture.geometry import Geometry
from exploy.exporter.capture.initial_memory import initial_values
from exploy.exporter.capture.location import raising_line
from exploy.exporter.capture.masks import replace_constant_masks, replace_masked_writes
from exploy.exporter.capture.paths import PathIndex, identifier_from_path
from exploy.exporter.capture.program import ACTIONS, OBSERVATIONS, MemoryPort, Port, Program
from exploy.exporter.capture.recording import STAGE, Recording, mutated_arguments
from exploy.exporter.capture.snapshot import Snapshot
from exploy.exporter.capture.two_rates import (
    ACT,
    FIRST_SUB_STEP,
    OBSERVE,
    PROCESS,
    SECOND_SUB_STEP,
    Boundary,
    TwoRates,
    split_rates,
)
from exploy.exporter.core.actor import ExportableActor
from exploy.exporter.core.components import Input, Memory, Output, describe
from exploy.exporter.core.exportable_environment import ExportableEnvironment

_DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bool,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
)  # fmt: skip


def capture(
    env: ExportableEnvironment,
    actor: ExportableActor,
    initial_memory: Mapping[str, torch.Tensor] | None = None,
) -> Program:
    """Record one policy step and two sub-steps of the live environment as a Program.

    Environment, actor and random generators are afterwards as they were before. `prepare_export()` is not called.

    Args:
        env: The environment, with its components registered.
        actor: The actor, in the mode in which it is to be exported.
        initial_memory: Values that memories start from, by name, where they differ from what is found.

    Raises:
        CaptureError: If the pipeline cannot be expressed as a graph; the message names the line.
        ComponentError, ActorError, EnvironmentError: If what the callbacks, actor or environment return does not fit.
    """
    roots = live_objects(env, actor)
    pipeline = _Pipeline(env, actor)
    arguments = {component.input_name: component.fetch() for component in pipeline.inputs}
    for component in pipeline.inputs:
        _check_dtype(component, arguments[component.input_name])
    refuse_overlapping_arguments(arguments)
    initial = initial_values(env, actor, roots, initial_memory or {})
    with Snapshot(roots) as snapshot:
        pipeline.record(snapshot, list(arguments.values()))
    return _Builder(pipeline, roots, arguments, initial).build()


def live_objects(env: ExportableEnvironment, actor: torch.nn.Module) -> dict[str, object]:
    """The objects whose state the pipeline may touch, by the name that their paths start with."""
    modules = {f"module_{index}": module for index, module in enumerate(env.context_manager().modules)}
    return {"env": env, "actor": actor, **modules}


@dataclass
class _Pipeline:
    """Runs the stages of an environment in their documented order while they are recorded."""

    env: ExportableEnvironment
    actor: ExportableActor
    recording: Recording = field(default_factory=Recording)
    boundaries: list[Boundary] = field(default_factory=list)
    observations: fx.Node = field(init=False)
    actions: fx.Node = field(init=False)
    carried_paths: PathIndex = field(init=False)
    rebound_by_observations: set[str] = field(init=False)

    @property
    def inputs(self) -> list[Input]:
        """Inputs first, memories last: the order of the program's arguments."""
        components = self.env.context_manager().get_input_components()
        return sorted(components, key=lambda item: isinstance(item, Memory))

    @property
    def outputs(self) -> list[Output]:
        """Outputs first, memories last: the order of the program's results."""
        components = self.env.context_manager().get_output_components()
        return sorted(components, key=lambda item: isinstance(item, Memory))

    def record(self, snapshot: Snapshot, arguments: list[torch.Tensor]) -> None:
        def run(*_: torch.Tensor) -> None:
            with EscapeGuard(self.recording, snapshot):
                self._run()

        self.recording.run(run, arguments)

    def _run(self) -> None:
        manager, recording = self.env.context_manager(), self.recording
        manager.write_connections()
        for update in self.env.command_updates:
            update()
        observations = self._observe()
        self.observations = recording.node_of(observations.clone())
        recording.end_stage(OBSERVE)
        self.rebound_by_observations = self._rebound_memories()
        actions = self._act(observations)
        self.actions = recording.node_of(actions.clone())
        recording.end_stage(ACT)
        self.env.process_actions(actions)
        self.env.apply_actions()
        self._end_step(PROCESS)
        self.carried_paths = _index_paths(live_objects(self.env, self.actor))
        for stage in (FIRST_SUB_STEP, SECOND_SUB_STEP):
            manager.write_connections()
            self.env.apply_actions()
            self._end_step(stage)

    def _observe(self) -> torch.Tensor:
        observations = self.env.compute_observations()
        expected = self.env.empty_actor_observations()
        if not isinstance(observations, torch.Tensor) or observations.shape != expected.shape:
            got = describe(observations) if isinstance(observations, torch.Tensor) else type(observations).__name__
            raise EnvironmentError(
                f"compute_observations() must return a tensor of {describe(expected)}, as empty_actor_observations() "
                f"does; got {got}."
            )
        return observations

    def _act(self, observations: torch.Tensor) -> torch.Tensor:
        expected = self.env.empty_actions()
        try:
            actions = self.actor(observations)
        except ExployError:
            raise
        except Exception as error:
            if "tracing tensor" in str(error):
                raise
            raise ActorError(
                f"The actor failed on observations of {describe(observations)} ({raising_line(error)}): {error}"
            ) from error
        if not isinstance(actions, torch.Tensor) or actions.shape != expected.shape:
            got = describe(actions) if isinstance(actions, torch.Tensor) else type(actions).__name__
            raise ActorError(
                f"The actor must return actions of {describe(expected)}, as empty_actions() does; got {got}."
            )
        return actions

    def _rebound_memories(self) -> set[str]:
        """Memories whose callback no longer returns the tensor that was there at the start."""
        arguments = zip(self.inputs, self.recording.arguments, strict=True)
        with torch._C.DisableTorchFunction():
            return {
                item.name
                for item, before in arguments
                if isinstance(item, Memory) and not Geometry.of(item.fetch()).same_place(Geometry.of(before))
            }

    def _end_step(self, stage: str) -> None:
        node_of = self.recording.node_of
        outputs = {item.output_name: node_of(item.fetch().clone()) for item in self.outputs}
        inputs = {item.input_name: node_of(item.fetch().clone()) for item in self.inputs}
        self.boundaries.append(Boundary(inputs, outputs))
        self.recording.end_stage(stage)


def _index_paths(roots: dict[str, object]) -> PathIndex:
    with torch._C.DisableTorchFunction():
        return PathIndex(roots)


@dataclass
class _Builder:
    """Makes a Program from a finished recording."""

    pipeline: _Pipeline
    roots: dict[str, object]
    arguments: dict[str, torch.Tensor]
    initial: dict[str, torch.Tensor]

    def build(self) -> Program:
        recording, pipeline = self.pipeline.recording, self.pipeline
        self._check_shapes()
        paths = _index_paths(self.roots)
        modules = [value for value in self.roots.values() if isinstance(value, torch.nn.Module)]
        replace_masked_writes(recording)
        regions = tie_aliases(recording)
        frozen = frozen_tensors(recording, regions, paths, modules)
        replace_constant_masks(recording)
        written = self._written_by_observations()
        after_policy, after_sub_step = pipeline.boundaries[:2]
        default = {ACTIONS: pipeline.actions, OBSERVATIONS: pipeline.observations, **after_policy.outputs}
        rates = split_rates(
            recording,
            regions,
            after_policy,
            list(self.arguments),
            list(default.values()),
            list(after_sub_step.outputs.values()),
        )
        memories = self._memories(written)
        carried = self._carried(rates, {memory.name for memory in memories})
        carried_outputs = [memory.output_name for memory in carried]
        module, names = _module(rates.graph, recording, self.roots)
        return Program(
            module=module,
            inputs=[Port(name, _plain(value)) for name, value in self.arguments.items() if name in self._input_names()],
            memories=[*memories, *carried],
            default_outputs=[*default, *carried_outputs],
            sub_step_outputs=[*after_sub_step.outputs, *carried_outputs],
            frozen=frozen,
            parameter_names=names,
        )

    def _input_names(self) -> list[str]:
        return [item.input_name for item in self.pipeline.inputs if not isinstance(item, Memory)]

    def _check_shapes(self) -> None:
        """Check that every component has a type that files know, and that inputs keep their shape and type."""
        for output in self.pipeline.outputs:
            clone = self.pipeline.boundaries[0].outputs[output.output_name]
            _check_dtype(output, self.pipeline.recording.tensors[clone])
        for item in self.pipeline.inputs:
            before = self.arguments[item.input_name]
            for boundary in self.pipeline.boundaries:
                after = self.pipeline.recording.tensors[boundary.inputs[item.input_name]]
                if before.shape != after.shape or before.dtype != after.dtype:
                    raise ComponentError(
                        f"{item} has {describe(before)} before a step and {describe(after)} after it. "
                        "The shape and dtype of a component must stay the same from call to call."
                    )

    def _written_by_observations(self) -> set[str]:
        """Memories that hold another value once observations are computed."""
        recording = self.pipeline.recording
        written = [
            place
            for node in recording.graph.nodes
            if node.meta.get(STAGE) == OBSERVE
            for target in mutated_arguments(node)
            if (place := recording.geometry(target)) is not None
        ]
        memories = {item.name: Geometry.of(self.arguments[item.input_name]) for item in self._memory_components()}
        changed = {name for name, place in memories.items() if any(place.overlaps(other) for other in written)}
        return changed | self.pipeline.rebound_by_observations

    def _memory_components(self) -> list[Memory]:
        return self.pipeline.env.context_manager().get_memory_components()

    def _memories(self, written: set[str]) -> list[MemoryPort]:
        return [
            MemoryPort(
                name=item.name,
                input_name=item.input_name,
                output_name=item.output_name,
                initial=self.initial[item.name],
                written_by_observations=item.name in written,
            )
            for item in self._memory_components()
        ]

    def _carried(self, rates: TwoRates, taken: set[str]) -> list[MemoryPort]:
        ports = []
        for value in rates.carried:
            path = self.pipeline.carried_paths.find(value.geometry)
            name = _unused(identifier_from_path(path) if path else "carried", taken)
            taken.add(name)
            ports.append(
                MemoryPort(
                    name=name,
                    input_name=f"memory.{name}.in",
                    output_name=f"memory.{name}.out",
                    initial=torch.zeros(value.geometry.shape, dtype=value.geometry.dtype),
                    carried=True,
                )
            )
        return ports


def _check_dtype(component: Input | Output, tensor: torch.Tensor) -> None:
    if tensor.dtype not in _DTYPES:
        raise ComponentError(
            f"{component} is of {describe(tensor)}, a type that numpy or ONNX does not have. "
            "Convert it in the environment, for example with .float()."
        )


def _unused(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(f"{name}_{number}" for number in itertools.count(2) if f"{name}_{number}" not in taken)


def _module(graph: fx.Graph, recording: Recording, roots: dict[str, object]) -> tuple[fx.GraphModule, dict[str, str]]:
    """The graph as a module that owns copies of its constants on the CPU, and names for those that are weights."""
    graph.eliminate_dead_code(is_impure_node=_has_effect)
    _make_portable(graph)
    constants: dict[str, torch.Tensor] = {}
    for node in graph.nodes:
        if node.op == "get_attr" and node.target not in constants:
            constants[node.target] = _plain(getattr(recording.module, node.target))
    module = fx.GraphModule(torch.nn.Module(), fx.Graph())
    for name, value in constants.items():
        module.register_buffer(name, value)
    module.graph = graph
    return module, _weight_names(recording, constants, roots)


def _weight_names(recording: Recording, constants: dict[str, torch.Tensor], roots: dict[str, object]) -> dict[str, str]:
    known = {
        tensor.data_ptr(): f"{root}.{name}"
        for root, module in roots.items()
        if isinstance(module, torch.nn.Module)
        for name, tensor in module.state_dict(keep_vars=True).items()
    }
    addresses = {name: getattr(recording.module, name).data_ptr() for name in constants}
    return {name: known[address] for name, address in addresses.items() if address in known}


def _has_effect(node: fx.Node) -> bool:
    return node.op in ("placeholder", "output") or bool(mutated_arguments(node))


def _make_portable(graph: fx.Graph) -> None:
    """Let every operator run on the CPU and draw from no generator of the environment."""

    def moved(argument: Any) -> Any:
        return torch.device("cpu") if isinstance(argument, torch.device) else argument

    for node in graph.nodes:
        if node.op == "call_function":
            node.args = fx.node.map_aggregate(node.args, moved)
            kwargs = {name: value for name, value in node.kwargs.items() if name != "generator"}
            node.kwargs = fx.node.map_aggregate(kwargs, moved)
    graph.eliminate_dead_code(is_impure_node=_has_effect)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU that is neither an inference tensor, nor a parameter, nor strided in any special way."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
