"""Export of a policy alone as one file."""

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
    """Options that every export of a policy alone takes; see `export_policy()`."""

    obs_names: Names | None
    action_names: Sequence[str] | None
    rate_hz: float | None
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
    """Export a policy alone as one file: observations in, actions first out, memories last.

    The file is compared with the policy over steps from random observations before it takes its place; a failed export
    leaves no new file and no changed one.

    Args:
        policy: The policy; exported in evaluation mode.
        path: The file to write; `.onnx` is added where it is missing, and its folder is made.
        obs_names: A name for each element of the observation; by port where there are several.
        action_names: A name for each element of the actions.
        rate_hz: Policy steps in a second.
        dynamic_batch: Leave the number of robots open, as the size `batch`; otherwise it is 1.
        opset_version: Version of the ONNX operators.
        ir_version: Version of the ONNX file format.
        target_onnxruntime: The release of onnxruntime on the robot, such as "1.20".
        golden_trace: Store some steps by which the file can test itself on the robot.
        model_source: Where the policy comes from, stored in the metadata.
        seed: Where the policy draws random numbers: what they start from, so that every session draws the same ones.
        backend: "onnx", "torch_export", "aot_inductor", or one that another package brings.
        verbose: Print a summary of the file.

    Returns:
        The path of the file.

    Raises:
        ExployError: One of its kinds for each thing that can be wrong; see `exploy.errors`.
    """
    versions = {"opset_version": opset_version, "ir_version": ir_version, "target_onnxruntime": target_onnxruntime}
    writer = make_backend(backend, **({**versions, "seed": seed} if backend == "onnx" else {}))
    options = PolicyOptions(obs_names, action_names, rate_hz, dynamic_batch, model_source)
    target = validated_file(path, writer.suffix)
    source = PolicySource(policy, options)
    return run_export(source, writer, target, golden_trace=golden_trace, verbose=verbose).path
