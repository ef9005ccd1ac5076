"""Runs the stages of an environment in their documented order and records them."""

from dataclasses import dataclass, field

import torch
from torch import fx

from exploy.capture.escape_guard import EscapeGuard
from exploy.capture.file_dtypes import require_file_dtype
from exploy.capture.recording import STAGE, Recording
from exploy.capture.scripted_functions import scripted_functions_followed
from exploy.capture.transformations import transformations_followed
from exploy.capture.two_rates import (
    ACT,
    FIRST_SUB_STEP,
    OBSERVE,
    PROCESS,
    SECOND_SUB_STEP,
    Boundary,
)
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Input, Memory, Output, describe
from exploy.environment.exportable_environment import ExportableEnvironment, Observations
from exploy.environment.observations import (
    OBSERVATIONS,
    describe_observations,
    observation_ports,
    validated_observations,
)
from exploy.environment.stages import Stages
from exploy.environment.validation import validated_tensor
from exploy.errors import ActorError, DataDependentError, ExployError, InvalidEnvironmentError
from exploy.live.attribute_paths import PathIndex, index_paths
from exploy.live.geometry import Geometry
from exploy.live.location import raising_line, runs_stages
from exploy.live.roots import live_objects
from exploy.live.snapshot import Snapshot

runs_stages(__file__)


@dataclass
class Pipeline:
    """Runs the stages of an environment in their documented order and records them."""

    env: ExportableEnvironment
    actor: ExportableActor
    recording: Recording = field(default_factory=Recording)
    boundaries: list[Boundary] = field(default_factory=list)
    observations: dict[str, fx.Node] = field(init=False)
    actions: fx.Node = field(init=False)
    carried_paths: PathIndex = field(init=False)
    rebound_by_observations: set[str] = field(init=False)

    @property
    def inputs(self) -> list[Input]:
        """Inputs, then memories: the order of the program's arguments."""
        components = self.env.context_manager().get_input_components()
        return sorted(components, key=lambda item: isinstance(item, Memory))

    @property
    def outputs(self) -> list[Output]:
        """Outputs, then memories: the order of the program's results."""
        components = self.env.context_manager().get_output_components()
        return sorted(components, key=lambda item: isinstance(item, Memory))

    def record(self, snapshot: Snapshot, arguments: list[torch.Tensor]) -> None:
        """Run one policy step and two sub-steps on the live environment.

        Raises:
            CaptureError: If a traced value leaves torch.
            InvalidEnvironmentError, ActorError: If observations or actions have the wrong type or shape.
        """

        def run(*_: torch.Tensor) -> None:
            with (
                transformations_followed(self.recording),
                scripted_functions_followed(),
                EscapeGuard(self.recording, snapshot) as guard,
            ):
                try:
                    self._run()
                except DataDependentError:
                    raise
                except Exception:
                    guard.require_no_escape()
                    raise
                guard.require_no_escape()

        self.recording.run(run, arguments, snapshot.gradient_mode())

    def unread_groups(self) -> tuple[str, ...]:
        """The groups of observations whose memory the actor does not read; call it while nodes are as recorded."""
        if OBSERVATIONS in self.observations:
            return ()
        recording = self.recording
        acting = [node for node in recording.graph.nodes if node.meta.get(STAGE) == ACT]
        read = [place for node in acting for source in node.all_input_nodes if (place := recording.geometry(source))]
        copied = {name: recording.geometry(node.all_input_nodes[0]) for name, node in self.observations.items()}
        return tuple(name for name, place in copied.items() if place and not any(map(place.overlaps, read)))

    def _run(self) -> None:
        stages, recording = Stages(self.env, self.actor), self.recording
        observations = stages.observe()
        ports = self._validated_ports(observations)
        self.observations = {name: recording.node_of(tensor.clone()) for name, tensor in ports.items()}
        recording.end_stage(OBSERVE)
        self.rebound_by_observations = self._rebound_memories()
        actions = self._act(stages, observations)
        self.actions = recording.node_of(actions.clone())
        recording.end_stage(ACT)
        stages.process(actions)
        self._end_step(PROCESS)
        self.carried_paths = index_paths(live_objects(self.env, self.actor))
        for stage in (FIRST_SUB_STEP, SECOND_SUB_STEP):
            stages.sub_step()
            self._end_step(stage)

    def _validated_ports(self, observations: Observations) -> dict[str, torch.Tensor]:
        """The tensors of the observations, by port."""
        empty = validated_observations(self.env, "empty_actor_observations")
        expected, got = observation_ports(empty), observation_ports(observations)
        if {name: item.shape for name, item in got.items()} != {name: item.shape for name, item in expected.items()}:
            raise InvalidEnvironmentError(
                f"compute_observations() must return tensors of {describe_observations(empty)}, like "
                f"empty_actor_observations(); got {describe_observations(observations)}."
            )
        for name, tensor in got.items():
            what = "The result" if name == OBSERVATIONS else f"The group {name!r} of the result"
            what += " of compute_observations()"
            require_file_dtype(what, tensor, "Return it with .float().", InvalidEnvironmentError)
        self._require_unused(got)
        return got

    def _require_unused(self, ports: dict[str, torch.Tensor]) -> None:
        taken = {item.input_name for item in self.inputs} | {item.output_name for item in self.outputs}
        for name in taken & ports.keys():
            raise InvalidEnvironmentError(
                f"compute_observations() returns a group whose port is called {name!r}, like a registered component. "
                "Rename one of them."
            )

    def _act(self, stages: Stages, observations: Observations) -> torch.Tensor:
        expected = validated_tensor(self.env, "empty_actions")
        try:
            actions = stages.act(observations)
        except ExployError:
            raise
        except Exception as error:
            if "tracing tensor" in str(error):
                raise
            what = describe_observations(observations)
            raise ActorError(f"The actor failed on observations of {what} ({raising_line(error)}): {error}") from error
        if not isinstance(actions, torch.Tensor) or actions.shape != expected.shape:
            got = describe(actions) if isinstance(actions, torch.Tensor) else type(actions).__name__
            raise ActorError(f"The actor must return actions of {describe(expected)}, like empty_actions(); got {got}.")
        require_file_dtype("The result of the actor", actions, "Return it with .float().", ActorError)
        return actions

    def _rebound_memories(self) -> set[str]:
        """Names of the memories whose callback no longer returns the same tensor as at the start."""
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
