"""Converts a live environment and its actor to a Program, and restores both."""

import dataclasses
import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn.parameter import is_lazy

from exploy.capture.actor_state import require_no_new_state
from exploy.capture.aliases import require_disjoint_arguments, tie_aliases
from exploy.capture.autocast import require_no_autocast
from exploy.capture.file_dtypes import CONVERT_COMPONENT, require_file_dtype
from exploy.capture.frozen import frozen_tensors
from exploy.capture.graph_module import own_module
from exploy.capture.initial_memory import initial_values
from exploy.capture.masks import replace_constant_masks, replace_masked_writes
from exploy.capture.pipeline import Pipeline
from exploy.capture.pointers import require_no_views_of_pointers
from exploy.capture.program import ACTIONS, FrozenTensor, Program, ProgramInput, ProgramMemory
from exploy.capture.recording import STAGE, mutated_arguments
from exploy.capture.sensitivity import Sensitivity
from exploy.capture.two_rates import OBSERVE, TwoRates, split_rates
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Memory, describe
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.tensor_copies import as_plain, cpu_copy
from exploy.errors import ActorError, ComponentError
from exploy.live.attribute_paths import identifier_from_attr_path, index_paths
from exploy.live.geometry import Geometry
from exploy.live.location import UNKNOWN
from exploy.live.object_graph import resolve_in
from exploy.live.roots import live_objects
from exploy.live.scripted_modules import script_reading_line
from exploy.live.snapshot import Snapshot

ONE_AT_A_TIME = threading.RLock()  # recording and torch's exporter use process-wide state


def capture(
    env: ExportableEnvironment,
    actor: ExportableActor,
    initial_memory: Mapping[str, torch.Tensor] | None = None,
) -> Program:
    """Record one policy step and two sub-steps of the live environment as a Program.

    The state of the environment, the actor and the random generators is restored. `prepare_export()` is not called.

    Args:
        env: The environment, with its components registered.
        actor: The actor, in the mode (train or eval) to export.
        initial_memory: Initial values of memories, by name, if they differ from the default.

    Raises:
        CaptureError: If the pipeline cannot be expressed as a graph; the message names the line.
        ComponentError, ActorError, InvalidEnvironmentError: If a callback, the actor or the environment returns an
            invalid value.
    """
    require_no_autocast()
    _require_initialized_parameters(actor)
    require_no_new_state(env.context_manager())
    roots = live_objects(env, actor)
    pipeline = Pipeline(env, actor)
    arguments = {component.input_name: as_plain(component.fetch()) for component in pipeline.inputs}
    for component in pipeline.inputs:
        require_file_dtype(component, arguments[component.input_name], CONVERT_COMPONENT, ComponentError)
    require_disjoint_arguments(arguments)
    initial = initial_values(env, actor, roots, initial_memory or {})
    with Snapshot(roots) as snapshot, env.context_manager().calls_replaced():
        pipeline.record(snapshot, list(arguments.values()))
        require_no_new_state(env.context_manager())
    return _Builder(pipeline, roots, arguments, initial).build()


@dataclass
class _Builder:
    """Builds a Program from a finished recording."""

    pipeline: Pipeline
    roots: dict[str, object]
    arguments: dict[str, torch.Tensor]
    initial: dict[str, torch.Tensor]

    def build(self) -> Program:
        recording, pipeline = self.pipeline.recording, self.pipeline
        self._require_constant_shapes()
        written = self._written_by_observations()  # while nodes still are those that were recorded
        unread_groups = pipeline.unread_groups()
        attr_paths = index_paths(self.roots)
        modules = [value for value in self.roots.values() if isinstance(value, torch.nn.Module)]
        require_no_views_of_pointers(recording)
        replace_masked_writes(recording)
        regions = tie_aliases(recording)
        stored = self._declared(self._located(frozen_tensors(recording, regions, attr_paths, modules)))
        replace_constant_masks(recording)
        after_policy, after_sub_step = pipeline.boundaries[:2]
        observations = {name: node for name, node in pipeline.observations.items() if name not in unread_groups}
        default = {ACTIONS: pipeline.actions, **observations, **after_policy.outputs}
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
        module, names = own_module(rates.graph, recording, self.roots)
        program = Program(
            module=module,
            inputs=[
                ProgramInput(name, cpu_copy(value))
                for name, value in self.arguments.items()
                if name in self._input_names()
            ],
            memories=[*memories, *carried],
            policy_step_outputs=[*default, *carried_outputs],
            sub_step_outputs=[*after_sub_step.outputs, *carried_outputs],
            frozen=[],
            parameter_names=names,
            dropped_checks=tuple(recording.dropped_checks),
            observation_outputs=tuple(observations),
            unread_groups=unread_groups,
        )
        program = program.without_memories(program.unread_memories)
        sensitivity = Sensitivity(program)
        read = [item for item in stored if not item.is_written or sensitivity.depends_on(item)]
        if unread_groups:
            used = program.used_buffers
            read = [item for item in read if item.buffers & used or item.is_read_by_python]
        return dataclasses.replace(
            program,
            frozen=[item for item in read if not item.is_weight or item.is_written],
            weights=[item for item in read if item.is_weight and not item.is_written],
        )

    def _located(self, stored: list[FrozenTensor]) -> list[FrozenTensor]:
        """Add the line of compiled code that reads a tensor, which no Python frame tells."""
        located = []
        for item in stored:
            holder, _, attribute = item.name.partition("[")[0].rpartition(".")
            owner = resolve_in(self.roots, holder) if item.where == UNKNOWN and holder else None
            where = script_reading_line(owner, attribute) if isinstance(owner, torch.jit.ScriptModule) else ""
            located.append(dataclasses.replace(item, where=where) if where else item)
        return located

    def _declared(self, stored: list[FrozenTensor]) -> list[FrozenTensor]:
        """Mark the tensors that the user declared as constants."""
        constants = self.pipeline.env.context_manager().get_constants()
        places = {constant.name: Geometry.of(constant.fetch()) for constant in constants}
        marked = []
        for item in stored:
            live = item.live if item.live is not None else resolve_in(self.roots, item.name)
            place = Geometry.of(live) if isinstance(live, torch.Tensor) else None
            names = [name for name, other in places.items() if place is not None and place.overlaps(other)]
            marked.append(dataclasses.replace(item, declared=names[0]) if names else item)
        return marked

    def _input_names(self) -> list[str]:
        return [item.input_name for item in self.pipeline.inputs if not isinstance(item, Memory)]

    def _require_constant_shapes(self) -> None:
        """Check that every component has a supported dtype, and that inputs keep their shape and dtype."""
        for output in self.pipeline.outputs:
            clone = self.pipeline.boundaries[0].outputs[output.output_name]
            tensor = self.pipeline.recording.tensors[clone]
            require_file_dtype(output, tensor, CONVERT_COMPONENT, ComponentError)
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
        """Names of the memories that computing the observations changes."""
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

    def _memories(self, written: set[str]) -> list[ProgramMemory]:
        return [
            ProgramMemory(
                name=item.name,
                input_name=item.input_name,
                output_name=item.output_name,
                initial=self.initial[item.name],
                written_by_observations=item.name in written,
            )
            for item in self._memory_components()
        ]

    def _carried(self, rates: TwoRates, taken: set[str]) -> list[ProgramMemory]:
        ports = []
        for place, where in zip(rates.carried, rates.carried_to, strict=True):
            named = self.pipeline.carried_paths.find(place)
            name = _unused(identifier_from_attr_path(named.attr_path) if named else "carried", taken)
            taken.add(name)
            ports.append(
                ProgramMemory(
                    name=name,
                    input_name=f"memory.{name}.in",
                    output_name=f"memory.{name}.out",
                    initial=torch.zeros(place.shape, dtype=place.dtype),
                    carried=True,
                    attr_path=named.attr_path if named else None,
                    where=where,
                )
            )
        return ports


def _unused(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(f"{name}_{number}" for number in itertools.count(2) if f"{name}_{number}" not in taken)


def _require_initialized_parameters(actor: torch.nn.Module) -> None:
    lazy = [name for name, parameter in actor.named_parameters() if is_lazy(parameter)]
    if lazy:
        raise ActorError(f"The parameters {', '.join(lazy)} are not initialized. Run the actor once before the export.")
