"""Core ONNX export functionality for RL policies."""

import dataclasses
import warnings
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from exploy.atomic_write import replacing
from exploy.backends.backend import Backend
from exploy.backends.onnx.backend import OnnxBackend
from exploy.backends.onnx.versions import IR_VERSION, OPSET_VERSION, versions_for
from exploy.backends.registry import make_backend
from exploy.capture.capture import ONE_AT_A_TIME, capture
from exploy.capture.garbage import no_garbage_collection
from exploy.capture.program import Program
from exploy.contract import STEP_COUNT, Contract
from exploy.description.environment_contract import build_contract
from exploy.description.metadata import build_metadata
from exploy.description.summary import frozen_line, summary
from exploy.diagnosis.inferred_memories import InferredMemories
from exploy.diagnosis.refusals import refuse_errors, refuse_random_operators
from exploy.driver.output_file import checked_target
from exploy.environment.actor import make_exportable_actor
from exploy.environment.checks import checked_decimation
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import UnusedInputWarning
from exploy.live.evaluation_mode import evaluation_mode
from exploy.verify.export_checks import check_against_environment, check_against_program, check_controller
from exploy.verify.golden_trace import record_trace
from exploy.verify.stepped import stepped_file


class ExportMode(Enum):
    """The two paths of an exported file."""

    Default = 0
    ProcessActions = 1


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
    initial_memory: Mapping[str, torch.Tensor] | None = None,
    verify_program: bool = True,
    verify_environment: bool = True,
    strict: bool = False,
    infer_memory: bool = False,
    allow_random: bool = False,
) -> Path:
    """Export an environment and its actor as one ONNX file.

    The environment, the actor and the random generators are afterwards as `prepare_export()` left them. The file is
    checked before it takes its place; a failed export leaves no new file and no changed one.

    Args:
        env: The environment to be exported.
        actor: The actor; exported in evaluation mode, whatever mode it is in.
        path: The folder to write to; made if it does not exist.
        filename: The name of the file; `.onnx` is added where it is missing.
        model_source: Where the policy comes from (for example a wandb run), stored in the metadata.
        verbose: Print a summary of the file.
        opset_version: Version of the ONNX operators; must be known to the onnxruntime of the robot, see
            https://onnxruntime.ai/docs/reference/compatibility.html
        ir_version: Version of the ONNX file format; likewise.
        target_onnxruntime: The release of onnxruntime on the robot, such as "1.20": opset and IR version are lowered to
            what it reads. One that was asked for and is too new for it is an error.
        golden_trace: Store some steps of inputs and outputs in the file, by which it can test itself on the robot.
        initial_memory: Values that memories start from, by name, instead of those found.
        verify_program: Check the file against the captured program.
        verify_environment: Check the file against the live environment, run at other values of its inputs.
        strict: Check the environment first, as `exploy.check_environment()` does, and refuse to go on if that finds
            errors. The steps that this takes are taken back, but for what a simulator keeps to itself.
        infer_memory: Register tensors that one policy step writes and the next one reads as Memories, under names made
            from their paths, and print them. They stay registered unless the export fails.
        allow_random: Let the actor draw random numbers. Outputs that these reach are not compared.

    Returns:
        The path of the file.

    Raises:
        ExployError: One of its kinds for each thing that can be wrong; see `exploy.errors`.
    """
    opset_version, ir_version = versions_for(target_onnxruntime, opset_version, ir_version)
    checked_target(path, filename, OnnxBackend.suffix)
    return export_environment(
        env,
        actor,
        path,
        filename=filename,
        model_source=model_source,
        verbose=verbose,
        golden_trace=golden_trace,
        initial_memory=initial_memory,
        verify_program=verify_program,
        verify_environment=verify_environment,
        strict=strict,
        infer_memory=infer_memory,
        allow_random=allow_random,
        opset_version=opset_version,
        ir_version=ir_version,
    )


def export_environment(
    env: ExportableEnvironment,
    actor: torch.nn.Module,
    path: str | Path,
    backend: str = "onnx",
    *,
    filename: str | None = None,
    model_source: dict[str, Any] | None = None,
    verbose: bool = False,
    golden_trace: bool = True,
    initial_memory: Mapping[str, torch.Tensor] | None = None,
    verify_program: bool = True,
    verify_environment: bool = True,
    strict: bool = False,
    infer_memory: bool = False,
    allow_random: bool = False,
    **backend_options: Any,
) -> Path:
    """Export an environment and its actor as one file of some backend; ports, memories and checks are the same for all.

    Args:
        env: The environment to be exported.
        actor: The actor.
        path: The folder to write to; made if it does not exist.
        backend: "onnx", "torch_export", "aot_inductor", or one that another package brings.
        filename: The name of the file; `policy` with the backend's suffix if not given.
        model_source: Where the policy comes from, stored in the file.
        verbose: Print a summary of the file.
        golden_trace: Store some steps by which the file can test itself.
        initial_memory: Values that memories start from, by name, instead of those found.
        verify_program: Check the file against the captured program.
        verify_environment: Check the file against the live environment.
        strict: Check the environment first, and refuse to go on if that finds errors.
        infer_memory: Register forgotten memories.
        allow_random: Let the actor draw random numbers.
        **backend_options: What the backend takes, such as `opset_version` of "onnx".

    Returns:
        The path of the file.

    Raises:
        ExployError: One of its kinds for each thing that can be wrong; see `exploy.errors`.
    """
    writer = make_backend(backend, **backend_options)
    exporter = OnnxEnvironmentExporter(env, actor, OPSET_VERSION, IR_VERSION, verbose)
    exporter.backend = writer
    exporter.golden_trace = golden_trace
    exporter.initial_memory = dict(initial_memory or {})
    exporter.verify_program, exporter.verify_environment = verify_program, verify_environment
    exporter.strict, exporter.infer_memory, exporter.allow_random = strict, infer_memory, allow_random
    return exporter.export(path, f"policy{writer.suffix}" if filename is None else filename, model_source)


class OnnxEnvironmentExporter(torch.nn.Module):
    """Exporter of an environment and its actor.

    Args:
        env: The environment to be exported.
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
        self.backend: Backend = OnnxBackend(opset_version, ir_version)
        self.golden_trace = True
        self.initial_memory: dict[str, torch.Tensor] = {}
        self.verify_program = True
        self.verify_environment = True
        self.strict = False
        self.infer_memory = False
        self.allow_random = False
        self._program: Program | None = None
        self.register_modules()

    def register_modules(self) -> None:
        """Make the modules of the context manager submodules `module_0`, `module_1`, … in the order of insertion.

        Calling this again registers only what is new.
        """
        for index, module in enumerate(self.env.context_manager().modules):
            if not hasattr(self, f"module_{index}"):
                self.add_module(f"module_{index}", module)

    def forward(self, input_data: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Compute one step of the captured pipeline; the live environment is not touched.

        Args:
            input_data: Values by port name: every Input and, where it is not to start anew, every memory. With
                `ctx.step_count` in it, the path is chosen as in the file; without, it is the default path.

        Returns:
            Actions, observations, outputs and memories on the default path; outputs and memories on the other one.
        """
        program = self._program or self._capture()
        values = program.examples | {name: value for name, value in input_data.items() if name != STEP_COUNT}
        default, sub_step = program.run(values)
        step_count = int(input_data.get(STEP_COUNT, torch.tensor(0)))
        mode = ExportMode.ProcessActions if step_count % self.env.decimation else ExportMode.Default
        return tuple((default if mode is ExportMode.Default else sub_step).values())

    def export(self, onnx_path: str | Path, onnx_file_name: str, model_source: dict[str, Any] | None = None) -> Path:
        """Export to ONNX, with the two paths as plain graphs in `debug/` for viewing.

        Args:
            onnx_path: The folder that will contain the file.
            onnx_file_name: The name of the file.
            model_source: Where the policy comes from, stored in the metadata.

        Returns:
            The path of the file.

        Raises:
            ExployError: One of its kinds; nothing is written then.
        """
        target = checked_target(onnx_path, onnx_file_name, self.backend.suffix)
        with ONE_AT_A_TIME, no_garbage_collection():
            return self._export(target, model_source)

    def _export(self, target: Path, model_source: dict[str, Any] | None) -> Path:
        decimation = checked_decimation(self.env)
        self.env.prepare_export()
        self.register_modules()
        modules = [self.actor, *self.env.context_manager().modules]
        inferred = InferredMemories(self.env, self.actor)
        with evaluation_mode(modules), inferred.taken_back_on_failure():
            program = self._capture()
            if self.infer_memory:
                program = inferred.register(program, self._capture)
            if self.strict:
                refuse_errors(self.env, self.actor, program, self.allow_random)
            refuse_random_operators(program, self.allow_random)
            artifact = self.backend.lower(program, decimation)
            program = self._program = program.without_memories(artifact.interface.unread_memories)
            contract = build_contract(self.env, program, artifact, decimation, self.backend.name, model_source)
            if self.golden_trace:
                contract = dataclasses.replace(contract, trace=record_trace(program, contract))
            data = artifact.file(contract, build_metadata(self.env, contract, model_source))
            self._verify(program, data, decimation)
            _write(target, data, artifact.debug_files())
        _warn_of_unused(contract)
        for line in (inferred.line(), frozen_line(contract)):
            if line:
                print(line)
        if self.verbose:
            print(f"{target} ({len(data) / 1024:.1f} KiB), policy step every {decimation} simulation steps")
            print(summary(contract))
        return target

    def _capture(self) -> Program:
        with evaluation_mode([self.actor, *self.env.context_manager().modules]):
            return capture(self.env, self.actor, self.initial_memory)

    def _verify(self, program: Program, data: bytes, decimation: int) -> None:
        if not (self.verify_program or self.verify_environment):
            return
        file = stepped_file(data)
        if self.verify_program:
            check_against_program(program, file, decimation)
            check_controller(data)
        if self.verify_environment:
            check_against_environment(self.env, self.actor, program, file)


def _warn_of_unused(contract: Contract) -> None:
    memories = {memory.input for memory in contract.memories}
    unused = [name for name in contract.unused_inputs if name not in memories]
    if unused:
        warnings.warn(
            f"No output depends on the Input{'s' if len(unused) > 1 else ''} {', '.join(unused)}; left out of the "
            "file. If the environment does read such a tensor, its callback returns another one than that.",
            UnusedInputWarning,
            stacklevel=5,
        )


def _write(target: Path, data: bytes, debug_files: dict[str, bytes]) -> None:
    stem = target.name.removesuffix(target.suffix)
    with replacing(target) as temporary:
        temporary.write_bytes(data)
        for suffix, contents in debug_files.items():
            with replacing(target.parent / "debug" / f"{stem}{suffix}") as temporary_debug:
                temporary_debug.write_bytes(contents)
