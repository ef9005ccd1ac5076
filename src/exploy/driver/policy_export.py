"""Exports a policy alone: captured, lowered, described, checked, written."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch

from exploy.atomic_write import replacing
from exploy.backends.onnx.backend import OnnxBackend
from exploy.backends.onnx.versions import IR_VERSION, OPSET_VERSION, versions_for
from exploy.backends.registry import make_backend
from exploy.capture.capture import ONE_AT_A_TIME
from exploy.capture.garbage import no_garbage_collection
from exploy.contract import METADATA_KEY, Contract
from exploy.description.metadata import to_json
from exploy.description.policy_contract import Names, describe_policy
from exploy.description.summary import summary
from exploy.driver.output_file import checked_target
from exploy.errors import MetadataError, OutputPathError
from exploy.live.evaluation_mode import evaluation_mode
from exploy.policy.capture import capture_policy
from exploy.policy.policy import Policy
from exploy.verify.golden_trace import record_trace
from exploy.verify.policy_checks import check_against_policy, refuse_broken
from exploy.version import __version__


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
    opset_version, ir_version = versions_for(target_onnxruntime, opset_version, ir_version)
    is_onnx = backend == "onnx"
    writer = OnnxBackend(opset_version, ir_version, seed) if is_onnx else make_backend(backend)
    target = _target(path, writer.suffix)
    if not isinstance(dynamic_batch, bool):
        raise MetadataError(f"dynamic_batch must be True or False, got {dynamic_batch!r}.")
    if not isinstance(model_source, dict | None):
        raise MetadataError(f"model_source must be a dictionary, got {type(model_source).__name__}.")
    with ONE_AT_A_TIME, no_garbage_collection(), evaluation_mode([policy]), torch.autocast("cpu", enabled=False):
        refuse_broken(policy)
        program = capture_policy(policy, dynamic_batch=dynamic_batch)
        artifact = writer.lower(program, None)
        contract = describe_policy(
            policy, program, artifact, obs_names, action_names, rate_hz, model_source, writer.name
        )
        if golden_trace:
            traced = capture_policy(policy, dynamic_batch=False) if dynamic_batch else program
            contract = dataclasses.replace(contract, trace=record_trace(traced, contract))
        data = artifact.file(contract, _metadata(contract))
        check_against_policy(policy, data, program.random_outputs, program.precision)
        with replacing(target) as temporary:
            temporary.write_bytes(data)
    if verbose:
        print(f"{target} ({len(data) / 1024:.1f} KiB), one rate")
        print(summary(contract))
    return target


def _target(given: Any, suffix: str) -> Path:
    if not isinstance(given, str | Path) or not str(given) or "\0" in str(given):
        raise OutputPathError(f"The path must be that of a file, such as 'policy{suffix}', got {given!r}.")
    path = Path(given)
    try:
        is_folder = path.is_dir()
    except OSError as error:
        raise OutputPathError(f"Cannot write {path}: {error.strerror or error}. Choose another name.") from None
    if is_folder:
        raise OutputPathError(f"{path} is a folder; give the name of a file, such as {path / f'policy{suffix}'}.")
    return checked_target(path.parent, path.name, suffix)


def _metadata(contract: Contract) -> dict[str, str]:
    properties = {
        "exploy_version": json.dumps(__version__),
        "decimation": "1",
        "model_source": to_json("model_source", dict(contract.provenance.model_source)),
        METADATA_KEY: contract.to_json(),
    }
    return properties if contract.hz is None else properties | {"update_rate": str(contract.hz)}
