"""Exports actor-critics of GBC: as all trainers do, and by the documented call."""

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
    """Export an actor-critic of GBC alone.

    Args:
        source: The actor-critic module, or the path of a checkpoint of its weights.
        path: The file to write.
        model: With a checkpoint: the actor-critic that the weights are for.
        normalizer: The normaliser of `obs`.
        ref_normalizer: The normaliser of `ref_obs`.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Raises:
        ExployError: One of its kinds for each thing that can be wrong.
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
    model_source: dict[str, Any] | None = None,
) -> None:
    """Export a trained actor-critic policy to ONNX for deployment.

    The ports are `obs` and `actions`; `ref_obs` and `ref_mask` where the actor has an embedding for reference
    observations; `h_in`, `h_out`, `c_in` and `c_out` (an LSTM) or `h_in` and `h_out` (a GRU) where the policy is
    recurrent. The module and the normaliser stay as they are, whatever mode and device they are in.

    Args:
        actor_critic: The trained actor-critic torch module.
        path: The folder to write to; made if it does not exist.
        normalizer: The normaliser of `obs`, put into the file; None for none.
        filename: The name of the file.
        verbose: Print what the file takes and gives.
        ref_normalizer: The normaliser of `ref_obs`; None for none.
        opset_version: Version of the ONNX operators; 14, and 11 for recurrent policies, if not given.
        dynamic_batch: Leave the number of robots open; otherwise it is 1.
        obs_names: A name for each element of the observation; by port where there are several.
        action_names: A name for each element of the actions.
        rate_hz: Policy steps in a second.
        model_source: Where the policy comes from, stored in the metadata.

    Raises:
        ExployError: One of its kinds for each thing that can be wrong; nothing is written then.
    """
    if not isinstance(path, str | Path):
        raise OutputPathError(f"The path must be that of a folder, got {path!r}.")
    policy = actor_from_model(actor_critic, normalizer, ref_normalizer)
    if opset_version is None:
        opset_version = _OPSET_VERSION_OF_RECURRENT if policy.states else _OPSET_VERSION
    try:
        ir_version = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset_version)])
    except (TypeError, ValueError) as error:
        raise LoweringError(f"opset_version must be one that onnx knows, such as 14, got {opset_version!r}.") from error
    export_network(
        policy,
        validated_target(path, filename, ".onnx"),
        obs_names=obs_names,
        action_names=action_names,
        rate_hz=rate_hz,
        dynamic_batch=dynamic_batch,
        opset_version=opset_version,
        ir_version=ir_version,
        model_source=model_source,
        verbose=verbose,
    )
