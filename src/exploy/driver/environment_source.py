"""An environment and its actor as the source of an export."""

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from exploy.backends.artifact import Artifact
from exploy.capture.capture import capture
from exploy.capture.program import Program
from exploy.contract import Contract
from exploy.description.environment_contract import build_contract
from exploy.description.metadata import build_metadata
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.diagnosis.inferred_memories import InferredMemories
from exploy.diagnosis.requirements import require_deterministic, require_no_errors
from exploy.diagnosis.reset_starts import MemoryStarts, with_starts_of_reset
from exploy.environment.actor import ExportableActor
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.validation import validated_decimation
from exploy.errors import NotRestoredWarning
from exploy.live.evaluation_mode import evaluation_mode
from exploy.live.out_of_reach import OutOfReach
from exploy.live.roots import live_objects
from exploy.verify.export_checks import verify_against_environment, verify_against_program, verify_controller
from exploy.verify.stepped import stepped_file
from exploy.verify.trusted_substitutes import TrustedSubstitutes, trusted_substitutes


@dataclass(frozen=True)
class EnvironmentOptions:
    """Options for the export of an environment.

    Args:
        model_source: The origin of the policy, stored in the file.
        starts: Where the start values of memories come from.
        verify_program: Check the file against the captured program.
        verify_environment: Check the file against the live environment, with other values of its inputs.
        strict: Check the environment first, and raise if there are errors.
        infer_memory: Register tensors that one policy step writes and the next one reads as Memories.
        allow_random: Allow the actor to draw random numbers. Outputs that depend on them are not compared.
        on_stop: What outputs are left with on a stop, by name; replaces their metadata.
    """

    model_source: dict[str, Any] | None = None
    starts: MemoryStarts = field(default_factory=MemoryStarts)
    verify_program: bool = True
    verify_environment: bool = True
    strict: bool = False
    infer_memory: bool = False
    allow_random: bool = False
    on_stop: Mapping[str, Any] | None = None


class EnvironmentSource:
    """An environment and its actor as the source of an export.

    After the export, `diagnosis` has the findings of a strict export, `inferred` the memories that it registered,
    `no_reset` why start values could not be taken from a reset, `not_restored` what could not be restored,
    `substitutes` the substitutes, and `comparisons` how many comparisons were made.

    Args:
        env: The environment.
        actor: The actor.
        options: The options of the export.
    """

    def __init__(self, env: ExportableEnvironment, actor: ExportableActor, options: EnvironmentOptions):
        self._env = env
        self._actor = actor
        self._options = options
        self.diagnosis: Diagnosis | None = None
        self.inferred: InferredMemories | None = None
        self.no_reset: str | None = None
        self.not_restored: str | None = None
        self.substitutes = TrustedSubstitutes()
        self._is_substituted = False
        self.comparisons = 0

    @property
    def decimation(self) -> int:
        """Simulation steps in a policy step."""
        return validated_decimation(self._env)

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Put modules into evaluation mode and substitutes in place; unregister inferred memories if the export fails.

        Raises:
            SubstituteError: If a substitute does not do what its original does.
        """
        validated_decimation(self._env)
        self._env.prepare_export()
        self.inferred = InferredMemories(self._env, self._actor)
        state = OutOfReach(live_objects(self._env, self._actor, anew=True))
        try:
            with evaluation_mode(self._modules()), self.inferred.taken_back_on_failure(), self._substituted():
                yield
        except BaseException:
            line = state.line()
            if line is not None:
                warnings.warn(line, NotRestoredWarning, stacklevel=2)
            raise
        self.not_restored = state.line()

    def capture(self) -> Program:
        """Capture the environment; depending on the options, register missing memories and check the environment.

        Raises:
            UnregisteredStateError: If a strict export finds errors.
            RandomOperatorError: If random numbers are drawn and this is not allowed.
            CaptureError: If the environment cannot be captured.
        """
        options, program = self._options, self.capture_once()
        if options.infer_memory and self.inferred is not None:
            program = self.inferred.register(program, self.capture_once)
        with evaluation_mode(self._modules()):
            program, self.no_reset = with_starts_of_reset(program, self._env, self._actor, options.starts)
        if options.strict:
            self.diagnosis = require_no_errors(self._env, self._actor, program, options.allow_random, options.starts)
        require_deterministic(program, options.allow_random)
        return program

    def capture_once(self) -> Program:
        """Capture the environment in its current state."""
        with evaluation_mode(self._modules()), self._substituted():
            return capture(self._env, self._actor, self._options.starts.given)

    def program_for_trace(self, program: Program) -> Program:
        """The program itself."""
        return program

    def describe(self, program: Program, artifact: Artifact, backend: str) -> Contract:
        """Build the contract of the file."""
        source, on_stop = self._options.model_source, self._options.on_stop
        contract = build_contract(self._env, program, artifact, self.decimation, backend, source, on_stop)
        return dataclasses.replace(contract, substitutes=self.substitutes.used)

    def metadata(self, contract: Contract) -> dict[str, str]:
        """The documented keys, the keys of the environment, and one key for each component or group."""
        return build_metadata(self._env, contract, self._options.model_source)

    def verify(self, program: Program, data: bytes) -> None:
        """Compare the file with the program and the live environment.

        Raises:
            VerificationError: If an output differs.
        """
        options = self._options
        if not (options.verify_program or options.verify_environment):
            return
        file = stepped_file(data)
        if options.verify_program:
            self.comparisons += verify_against_program(program, file, self.decimation)
            verify_controller(data)
        if options.verify_environment:
            self.comparisons += verify_against_environment(self._env, self._actor, program, file)

    @contextlib.contextmanager
    def _substituted(self) -> Iterator[None]:
        """Put substitutes in place, unless they are."""
        if self._is_substituted:
            yield
            return
        with trusted_substitutes(self._env, self._actor, with_reset=self._options.starts.from_reset) as found:
            self._is_substituted, self.substitutes = True, found
            try:
                yield
            finally:
                self._is_substituted = False

    def _modules(self) -> list[torch.nn.Module]:
        return [self._actor, *self._env.context_manager().modules]
