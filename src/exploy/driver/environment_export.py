"""Export of an environment and its actor as one file."""

import sys
import warnings
from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from exploy.backends.backend import Backend
from exploy.backends.onnx.backend import OnnxBackend
from exploy.backends.onnx.versions import IR_VERSION, OPSET_VERSION, versions_for
from exploy.backends.registry import backend_for
from exploy.capture.program import Program
from exploy.contract import STEP_COUNT, PortKind
from exploy.description.summary import frozen_line
from exploy.diagnosis.reset_starts import InitialMemory, MemoryStarts
from exploy.driver.environment_source import EnvironmentOptions, EnvironmentSource
from exploy.driver.export_result import ExportResult, Verification
from exploy.driver.output_file import validated_file, validated_target
from exploy.driver.run_export import WrittenFile, run_export
from exploy.environment.actor import make_exportable_actor
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import (
    DroppedCheckWarning,
    ExployWarning,
    FrozenTensorWarning,
    InferredMemoryWarning,
    NoResetSeenWarning,
    NotRestoredWarning,
    UnreadGroupWarning,
    UnusedInputWarning,
    UnusedSubstituteWarning,
)
from exploy.live.location import is_internal
from exploy.verify.start_values import RESET_WITHIN


class ExportMode(Enum):
    """The two steps of an exported file: Default is the policy step, ProcessActions the sub-step."""

    Default = 0
    ProcessActions = 1


def export(
    env: ExportableEnvironment,
    actor: torch.nn.Module,
    path: str | Path,
    *,
    backend: str | None = None,
    strict: bool = True,
    model_source: dict[str, Any] | None = None,
    golden_trace: bool = True,
    initial_memory: InitialMemory = "reset",
    reset_within: int = RESET_WITHIN,
    verify_program: bool = True,
    verify_environment: bool = True,
    infer_memory: bool = False,
    allow_random: bool = False,
    allow_uncompared: Collection[str] = (),
    on_stop: Mapping[str, Any] | None = None,
    verbose: bool = False,
    **backend_options: Any,
) -> ExportResult:
    """Export an environment and its actor as one file, checked and verified.

    After the export, the environment, the actor and the random generators have the state that `prepare_export()` left.
    A failed export does not create or change a file.

    Args:
        env: The environment to export.
        actor: The actor; always exported in evaluation mode.
        path: The file to write. A missing folder is created, and a missing suffix is added.
        backend: "onnx", "torch_export", "aot_inductor", "c", or the backend of another package. If None, the suffix
            decides: `.pt2` is for torch, `.c.zip` is C, everything else for onnxruntime.
        strict: Check the environment first, as `exploy.check_environment()` does, and raise if there are errors. The
            steps of the check are undone, except for state that only the simulator can access.
        model_source: The origin of the policy, stored in the file.
        golden_trace: Store some steps in the file, for its self-test on the robot.
        initial_memory: Start values of memories: "reset" for the values after a reset of the environment, "found" for
            the current values, or values by memory name, in which case all others are those after a reset.
        reset_within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`.
        verify_program: Check the file against the captured program.
        verify_environment: Check the file against the live environment, with other values of its inputs.
        infer_memory: Register tensors that one policy step writes and the next one reads as Memories, with a warning.
        allow_random: Allow the actor to draw random numbers. Outputs that depend on them are not compared.
        allow_uncompared: Outputs that need not be compared, such as those that random numbers reach. Others make the
            verification incomplete.
        on_stop: What outputs are left with when the robot is stopped, by name: "hold", "zero", a number, or one number
            per element. Replaces the metadata of Outputs; without either, kind and unit decide.
        verbose: Print a summary of the file.
        **backend_options: Options of the backend, such as `opset_version` or `target_onnxruntime` of "onnx".

    Returns:
        The file, its contract, and the checks that it passed. It prints as a table.

    Raises:
        ExployError: A subclass for each kind of error; see `exploy.errors`.
    """
    writer = backend_for(path, backend, **backend_options)
    target = validated_file(path, writer.suffix)
    options = EnvironmentOptions(
        model_source,
        MemoryStarts.of(initial_memory, reset_within, others_from_reset=True),
        verify_program,
        verify_environment,
        strict,
        infer_memory,
        allow_random,
        on_stop,
    )
    source = EnvironmentSource(env, make_exportable_actor(actor), options)
    written = run_export(source, writer, target, golden_trace=golden_trace, verbose=verbose)
    _warn(source, written)
    return _result(source, written, options, allow_uncompared)


def export_environment_as_onnx(
    env: ExportableEnvironment,
    actor: torch.nn.Module,
    path: str | Path,
    filename: str = "policy.onnx",
    model_source: dict[str, Any] | None = None,
    verbose: bool = False,
    opset_version: int = OPSET_VERSION,
    ir_version: int = IR_VERSION,
    *,
    target_onnxruntime: str | None = None,
    golden_trace: bool = True,
    initial_memory: InitialMemory = None,
    reset_within: int = RESET_WITHIN,
    verify_program: bool = True,
    verify_environment: bool = True,
    strict: bool = False,
    infer_memory: bool = False,
    allow_random: bool = False,
    on_stop: Mapping[str, Any] | None = None,
) -> Path:
    """Export an environment and its actor as one ONNX file.

    After the export, the environment, the actor and the random generators have the state that `prepare_export()` left.
    The file is checked before it is written. A failed export does not create or change a file.

    Args:
        env: The environment to export.
        actor: The actor; always exported in evaluation mode.
        path: The folder to write to; created if it does not exist.
        filename: The name of the file; `.onnx` is added if it is missing.
        model_source: The origin of the policy (for example a wandb run), stored in the metadata.
        verbose: Print a summary of the file.
        opset_version: Version of the ONNX operators; the onnxruntime on the robot must support it, see
            https://onnxruntime.ai/docs/reference/compatibility.html
        ir_version: Version of the ONNX file format; the onnxruntime on the robot must support it.
        target_onnxruntime: The release of onnxruntime on the robot, such as "1.20". The default opset and IR versions
            are lowered to versions that it supports. An explicit version that is too new for it is an error.
        golden_trace: Store some steps of inputs and outputs in the file, for its self-test on the robot.
        initial_memory: Start values of memories by name, instead of their current values; or "reset" for the values
            after a reset of the environment.
        reset_within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`.
        verify_program: Check the file against the captured program.
        verify_environment: Check the file against the live environment, with other values of its inputs.
        strict: Check the environment first, as `exploy.check_environment()` does, and raise if there are errors. The
            steps of the check are undone, except for state that only the simulator can access.
        infer_memory: Register tensors that one policy step writes and the next one reads as Memories, and warn. Their
            names are derived from their paths. They stay registered unless the export fails.
        allow_random: Allow the actor to draw random numbers. Outputs that depend on them are not compared.
        on_stop: What outputs are left with when the robot is stopped, by name; see `export()`.

    Returns:
        The path of the file.

    Raises:
        ExployError: A subclass for each kind of error; see `exploy.errors`.
    """
    opset_version, ir_version = versions_for(target_onnxruntime, opset_version, ir_version)
    exporter = OnnxEnvironmentExporter(env, actor, opset_version, ir_version, verbose)
    options = EnvironmentOptions(
        model_source,
        MemoryStarts.of(initial_memory, reset_within, others_from_reset=False),
        verify_program,
        verify_environment,
        strict,
        infer_memory,
        allow_random,
        on_stop,
    )
    return exporter._export(validated_target(path, filename, OnnxBackend.suffix), options, golden_trace)


class OnnxEnvironmentExporter(torch.nn.Module):
    """Exporter of an environment and its actor.

    Args:
        env: The environment to export.
        actor: The actor.
        opset_version: Version of the ONNX operators.
        ir_version: Version of the ONNX file format.
        verbose: Print a summary of the file.
    """

    def __init__(
        self,
        env: ExportableEnvironment,
        actor: torch.nn.Module,
        opset_version: int,
        ir_version: int,
        verbose: bool = False,
    ):
        super().__init__()
        self.env = env
        self.actor = make_exportable_actor(actor)
        self.opset_version = opset_version
        self.ir_version = ir_version
        self.verbose = verbose
        self._program: Program | None = None
        self.register_modules()

    def register_modules(self) -> None:
        """Register the modules of the context manager as submodules `module_0`, `module_1`, … in insertion order.

        Calling this again only registers new modules.
        """
        for index, module in enumerate(self.env.context_manager().modules):
            if not hasattr(self, f"module_{index}"):
                self.add_module(f"module_{index}", module)

    def forward(self, input_data: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Compute one step of the captured pipeline. The live environment is not used.

        Args:
            input_data: Values by port name: every Input, and every memory that should not use its start value. If
                `ctx.step_count` is given, it selects the step as in the file; otherwise the policy step is computed.

        Returns:
            Actions, observations, outputs and memories of a policy step; outputs and memories of a sub-step.
        """
        program = self._program or EnvironmentSource(self.env, self.actor, EnvironmentOptions()).capture_once()
        values = program.examples | {name: value for name, value in input_data.items() if name != STEP_COUNT}
        default, sub_step = program.run(values)
        step_count = int(input_data.get(STEP_COUNT, torch.tensor(0)))
        mode = ExportMode.ProcessActions if step_count % self.env.decimation else ExportMode.Default
        return tuple((default if mode is ExportMode.Default else sub_step).values())

    def export(self, onnx_path: str | Path, onnx_file_name: str, model_source: dict[str, Any] | None = None) -> Path:
        """Export to ONNX, and write the two steps as plain graphs to `debug/` for viewing.

        Args:
            onnx_path: The folder that will contain the file.
            onnx_file_name: The name of the file.
            model_source: The origin of the policy, stored in the metadata.

        Returns:
            The path of the file.

        Raises:
            ExployError: If the export fails; nothing is written.
        """
        target = validated_target(onnx_path, onnx_file_name, OnnxBackend.suffix)
        return self._export(target, EnvironmentOptions(model_source), golden_trace=True)

    def _export(self, target: Path, options: EnvironmentOptions, golden_trace: bool) -> Path:
        source = EnvironmentSource(self.env, self.actor, options)
        backend: Backend = OnnxBackend(self.opset_version, self.ir_version)
        written = run_export(source, backend, target, golden_trace=golden_trace, verbose=self.verbose)
        self._program = written.program
        self.register_modules()
        _warn(source, written)
        return written.path


def _result(
    source: EnvironmentSource, written: WrittenFile, options: EnvironmentOptions, allow_uncompared: Collection[str]
) -> ExportResult:
    contract = written.contract
    ticks = contract.trace.ticks if contract.trace is not None else 0
    ports = {port.name for port in contract.outputs if port.kind != PortKind.MEMORY}
    not_seen = source.diagnosis.not_compared if source.diagnosis is not None else ()
    left_out = dict.fromkeys((*contract.random_outputs, *not_seen))
    not_compared = tuple(name for name in left_out if name in ports - set(allow_uncompared))
    verification = Verification(
        options.verify_program, options.verify_environment, ticks, not_compared, source.comparisons
    )
    return ExportResult(written.path, contract, verification, source.diagnosis)


def _warn(source: EnvironmentSource, written: WrittenFile) -> None:
    """Warn about unused inputs, inferred memories, frozen tensors and dropped checks."""
    contract = written.contract
    memories = {memory.input for memory in contract.memories}
    unused = [name for name in contract.unused_inputs if name not in memories]
    texts: list[tuple[type[ExployWarning], str | None]] = [
        (UnusedInputWarning, _unused_line(unused)),
        (UnreadGroupWarning, _unread_line(written.program)),
        (InferredMemoryWarning, source.inferred.line() if source.inferred is not None else None),
        (FrozenTensorWarning, frozen_line(contract)),
        (DroppedCheckWarning, _dropped_line(written.program)),
        (UnusedSubstituteWarning, _unused_substitutes_line(source.substitutes.unused)),
        (NoResetSeenWarning, source.no_reset),
        (NotRestoredWarning, source.not_restored),
    ]
    for category, text in texts:
        if text:
            warnings.warn(text, category, stacklevel=_frames_of_exploy())


def _unread_line(program: Program) -> str | None:
    if not program.unread_groups:
        return None
    return f"The actor does not read {', '.join(program.unread_groups)}; left out of the file."


def _dropped_line(program: Program) -> str | None:
    if not program.dropped_checks:
        return None
    return f"The file leaves out these checks, which raise or print: {'; '.join(program.dropped_checks)}."


def _unused_substitutes_line(unused: tuple[str, ...]) -> str | None:
    if not unused:
        return None
    return f"The pipeline does not call {', '.join(unused)}; no substitute was used. Name the function that it calls."


def _unused_line(unused: list[str]) -> str | None:
    if not unused:
        return None
    return (
        f"No output depends on the Input{'s' if len(unused) > 1 else ''} {', '.join(unused)}; left out of the "
        "file. If the environment does read it, fix the callback: it returns a different tensor."
    )


def _frames_of_exploy() -> int:
    """The `stacklevel` with which a warning of the calling function points to the code that called exploy."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level
