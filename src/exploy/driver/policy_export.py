"""Export of a policy without environment as one file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from exploy.backends.onnx.versions import IR_VERSION, OPSET_VERSION
from exploy.backends.registry import make_backend
from exploy.description.policy_contract import Names
from exploy.driver.output_file import validated_file
from exploy.driver.policy_source import PolicyOptions, PolicySource
from exploy.driver.run_export import run_export
from exploy.policy.policy import Policy


class ExportOptions(TypedDict, total=False):
    """Options of every export of a policy without environment; see `export_policy()`."""

    obs_names: Names | None
    action_names: Sequence[str] | None
    rate_hz: float | None
    on_stop: Any
    dynamic_batch: bool
    opset_version: int
    ir_version: int
    target_onnxruntime: str | None
    golden_trace: bool
    model_source: dict[str, Any] | None
    seed: int | None
    backend: str
    verbose: bool


def export_policy(
    policy: Policy,
    path: str | Path,
    *,
    obs_names: Names | None = None,
    action_names: Sequence[str] | None = None,
    rate_hz: float | None = None,
    on_stop: Any = None,
    dynamic_batch: bool = False,
    opset_version: int = OPSET_VERSION,
    ir_version: int = IR_VERSION,
    target_onnxruntime: str | None = None,
    golden_trace: bool = True,
    model_source: dict[str, Any] | None = None,
    seed: int | None = None,
    backend: str = "onnx",
    verbose: bool = False,
) -> Path:
    """Export a policy without environment as one file. Its first outputs are the actions, its last the memories.

    Before the file is written, it is compared with the policy over some steps with random observations. A failed export
    does not create or change a file.

    Args:
        policy: The policy; exported in evaluation mode.
        path: The file to write. A missing folder is created, and a missing suffix such as `.onnx` is added.
        obs_names: A name for each element of the observation; a dictionary by port if there are several ports.
        action_names: A name for each element of the actions.
        rate_hz: Policy steps per second.
        on_stop: What the actions are left with when the robot is stopped: "hold" if they are positions, "zero" if they
            are torques or velocities, a number, or one number per element. A dictionary by output if there are several.
        dynamic_batch: Export with a dynamic batch size named `batch`; otherwise the batch size is 1.
        opset_version: Version of the ONNX operators.
        ir_version: Version of the ONNX file format.
        target_onnxruntime: The release of onnxruntime on the robot, such as "1.20".
        golden_trace: Store some steps in the file, for its self-test on the robot.
        model_source: The origin of the policy, stored in the metadata.
        seed: Seed of the random numbers that the policy draws, so that every session draws the same numbers.
        backend: "onnx", "torch_export", "aot_inductor", "c", or the backend of another package.
        verbose: Print a summary of the file.

    Returns:
        The path of the file.

    Raises:
        ExployError: A subclass for each kind of error; see `exploy.errors`.
    """
    versions = {"opset_version": opset_version, "ir_version": ir_version, "target_onnxruntime": target_onnxruntime}
    writer = make_backend(backend, **({**versions, "seed": seed} if backend == "onnx" else {}))
    options = PolicyOptions(obs_names, action_names, rate_hz, dynamic_batch, model_source, on_stop)
    target = validated_file(path, writer.suffix)
    source = PolicySource(policy, options)
    return run_export(source, writer, target, golden_trace=golden_trace, verbose=verbose).path
