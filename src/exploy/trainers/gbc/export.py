"""Exports GBC actor-critics, by `export_policy()` like all trainers and by the documented `export_policy_as_onnx()`."""

from pathlib import Path
from typing import Any, Unpack

import onnx
import torch

from exploy.description.policy_contract import Names
from exploy.driver.output_file import validated_target
from exploy.driver.policy_export import ExportOptions
from exploy.driver.policy_export import export_policy as export_network
from exploy.errors import LoweringError, OutputPathError
from exploy.trainers.gbc.policy import actor_from_checkpoint, actor_from_model

_OPSET_VERSION = 14
_OPSET_VERSION_OF_RECURRENT = 11


def export_policy(
    source: Any,
    path: str | Path,
    *,
    model: torch.nn.Module | None = None,
    normalizer: Any = None,
    ref_normalizer: Any = None,
    **options: Unpack[ExportOptions],
) -> Path:
    """Export a GBC actor-critic without its environment.

    Args:
        source: The actor-critic module, or the path of a checkpoint with its weights.
        path: The file to write.
        model: For a checkpoint: the actor-critic to load the weights into.
        normalizer: The normaliser of `obs`.
        ref_normalizer: The normaliser of `ref_obs`.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Raises:
        ExployError: If the export fails. The subclass gives the kind of failure.
    """
    if isinstance(source, str | Path):
        actor = actor_from_checkpoint(source, model=model, normalizer=normalizer, ref_normalizer=ref_normalizer)
    else:
        actor = actor_from_model(source, normalizer, ref_normalizer)
    return export_network(actor, path, **options)


def export_policy_as_onnx(
    actor_critic: object,
    path: str | Path,
    normalizer: object | None = None,
    filename: str = "policy.onnx",
    verbose: bool = False,
    *,
    ref_normalizer: object | None = None,
    opset_version: int | None = None,
    dynamic_batch: bool = False,
    obs_names: Names | None = None,
    action_names: list[str] | None = None,
    rate_hz: float | None = None,
    on_stop: Any = None,
    model_source: dict[str, Any] | None = None,
) -> None:
    """Export a trained actor-critic policy to ONNX for deployment.

    The ports are `obs` and `actions`. An actor with an embedding for reference observations also has `ref_obs` and
    `ref_mask`. A recurrent policy also has `h_in`, `h_out`, `c_in` and `c_out` (LSTM) or `h_in` and `h_out` (GRU). The
    module and the normaliser are not changed; they can be in any mode and on any device.

    Args:
        actor_critic: The trained actor-critic torch module.
        path: The folder to write to. It is created if it does not exist.
        normalizer: The normaliser of `obs`, which becomes part of the file. None for no normalisation.
        filename: The name of the file.
        verbose: Print the inputs and outputs of the file.
        ref_normalizer: The normaliser of `ref_obs`. None for no normalisation.
        opset_version: Version of the ONNX operators. Default: 14, or 11 for recurrent policies.
        dynamic_batch: Allow any number of robots. Otherwise it is 1.
        obs_names: A name for each element of the observation. A dictionary by port if there are several ports.
        action_names: A name for each element of the actions.
        rate_hz: Policy steps per second.
        on_stop: What the actions are left with when the robot is stopped: "hold", "zero", a number or a list.
        model_source: Where the policy comes from, stored in the metadata.

    Raises:
        ExployError: If the export fails. The subclass gives the kind of failure. No file is written.
    """
    if not isinstance(path, str | Path):
        raise OutputPathError(f"The path must be the path of a folder, got {path!r}.")
    policy = actor_from_model(actor_critic, normalizer, ref_normalizer)
    if opset_version is None:
        opset_version = _OPSET_VERSION_OF_RECURRENT if policy.states else _OPSET_VERSION
    try:
        ir_version = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset_version)])
    except (TypeError, ValueError) as error:
        raise LoweringError(
            f"opset_version must be a version that onnx supports, such as 14, got {opset_version!r}."
        ) from error
    export_network(
        policy,
        validated_target(path, filename, ".onnx"),
        obs_names=obs_names,
        action_names=action_names,
        rate_hz=rate_hz,
        on_stop=on_stop,
        dynamic_batch=dynamic_batch,
        opset_version=opset_version,
        ir_version=ir_version,
        model_source=model_source,
        verbose=verbose,
    )
