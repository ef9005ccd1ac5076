"""Converts a Stable-Baselines3 algorithm, or a file that it saved, to an actor or an exported file."""

import inspect
import pickle
import zipfile
from pathlib import Path
from typing import Any, Unpack

import torch

from exploy.driver.policy_export import ExportOptions
from exploy.driver.policy_export import export_policy as export_network
from exploy.errors import CheckpointError, PolicyError
from exploy.policy.copies import own_copy
from exploy.policy.policy import Policy
from exploy.trainers.common.attributes import attribute
from exploy.trainers.common.checkpoints import load_into
from exploy.trainers.common.libraries import library
from exploy.trainers.sb3.policy import Sb3Policy
from exploy.trainers.sb3.wrappers import observation_paths

_AROUND_THE_NETWORK = ("predict", "obs_to_tensor", "scale_action", "unscale_action")
_OF_A_CHECKPOINT = ("policy_class", "observation_space", "action_space")


def export_policy(
    source: Any,
    path: str | Path,
    *,
    vecnormalize: Any = None,
    frame_stack: int | None = None,
    transpose_images: bool | None = None,
    **options: Unpack[ExportOptions],
) -> Path:
    """Export the policy of an algorithm, from raw observations to the actions of `predict(deterministic=True)`.

    Args:
        source: The algorithm (PPO, SAC, …), or the path of a file that its `save()` wrote. Loading such a file can run
            code: only use files that you trust.
        path: The file to write.
        vecnormalize: The VecNormalize of the environment, or the path of a file that its `save()` wrote (loading it can
            run code as well). Default: the VecNormalize of the algorithm's environment. False for no normalisation.
        frame_stack: Number of frames that VecFrameStack stacks. Default: that of the algorithm's environment.
        transpose_images: Whether raw images have their channels last, so that VecTransposeImage moves them to the
            front. Default: as in the algorithm's environment.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Raises:
        ExployError: If the export fails. The subclass gives the kind of failure.
    """
    make = actor_from_checkpoint if isinstance(source, str | Path) else actor_from_model
    actor = make(source, vecnormalize=vecnormalize, frame_stack=frame_stack, transpose_images=transpose_images)
    return export_network(actor, path, **options)


def actor_from_model(
    model: Any,
    *,
    vecnormalize: Any = None,
    frame_stack: int | None = None,
    transpose_images: bool | None = None,
) -> Policy:
    """A copy of the policy of an algorithm; see `export_policy()` for the arguments.

    Raises:
        PolicyError: If it is not a Stable-Baselines3 algorithm, or its wrappers are unsupported or do not match.
        CheckpointError: If `vecnormalize` is a path that cannot be loaded as a VecNormalize.
    """
    policy = attribute(model, "policy", what="policy")
    attribute(policy, "_predict", what="method for deterministic actions")
    attribute(policy, "observation_space", what="observation space")
    _require_library_inference(model, policy)
    env = getattr(model, "env", None)
    paths = observation_paths(policy.observation_space, env, _vecnormalize(vecnormalize), frame_stack, transpose_images)
    return Sb3Policy(own_copy(policy), paths)


def actor_from_checkpoint(
    path: str | Path,
    *,
    vecnormalize: Any = None,
    frame_stack: int | None = None,
    transpose_images: bool | None = None,
) -> Policy:
    """The policy of a file that an algorithm's `save()` wrote; see `export_policy()` for the arguments.

    The file contains the policy's class and its arguments, so the algorithm is not needed. It does not contain the
    wrappers of the environment.

    Raises:
        CheckpointError: If the file is not such a checkpoint, or its weights do not match its policy class.
        PolicyError: If the wrappers do not match the policy.
    """
    data, weights = _load(Path(path))
    if vecnormalize is None and data.get("_last_original_obs") is not None:
        raise CheckpointError(
            f"{path} was trained with a VecNormalize, but does not contain it. Give vecnormalize= (the object, or the "
            "file that its save() wrote), or vecnormalize=False to export the policy without it."
        )
    with torch.random.fork_rng(devices=[]):
        policy = _build(data, path)
    _require_library_inference(None, policy)
    load_into(policy, weights, path, f"the {type(policy).__name__} that it describes")
    paths = observation_paths(
        policy.observation_space, None, _vecnormalize(vecnormalize), frame_stack, transpose_images
    )
    return Sb3Policy(own_copy(policy), paths)


def _require_library_inference(model: Any, policy: Any) -> None:
    """Raise if a class overrides how the library turns the network's result into actions."""
    for owner, methods in ((model, ("predict",)), (policy, _AROUND_THE_NETWORK)):
        for name in methods:
            home = getattr(getattr(type(owner), name, None), "__module__", "") or ""
            if home and not home.startswith(("stable_baselines3.", "sb3_contrib.")):
                raise PolicyError(
                    f"{type(owner).__name__} overrides {name}() ({home}), which would not be part of the file: only "
                    "_predict() of the policy is exported. Move the code there, or into the environment."
                )


def _load(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The description of the policy and its weights."""
    save_util = library("stable_baselines3.common.save_util", "sb3")
    if not path.is_file():
        raise CheckpointError(f"Checkpoint not found: {path}.")
    names = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
    if "data" not in names:
        found = ", ".join(names[:6]) or "a file that is not a zip"
        raise CheckpointError(
            f"{path} is not a checkpoint of Stable-Baselines3: looked for data in a zip, found {found}."
        )
    try:
        data, params, _ = save_util.load_from_zip_file(path, device="cpu")
    except Exception as error:
        raise CheckpointError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    missing = [key for key in _OF_A_CHECKPOINT if key not in (data or {})]
    missing += [] if params and "policy" in params else ["policy.pth"]
    if missing:
        raise CheckpointError(f"{path} is not a checkpoint of Stable-Baselines3: it has no {', '.join(missing)}.")
    return data, params["policy"]


def _build(data: dict[str, Any], path: str | Path) -> Any:
    """Create a policy from the class and the arguments in a checkpoint."""
    utils = library("stable_baselines3.common.vec_env.patch_gym", "sb3")
    spaces = [utils._convert_space(data[key]) for key in ("observation_space", "action_space")]
    arguments = {name: value for name, value in (data.get("policy_kwargs") or {}).items() if name != "device"}
    takes = inspect.signature(data["policy_class"].__init__).parameters
    if "use_sde" in takes and data.get("use_sde") is not None:
        arguments.setdefault("use_sde", data["use_sde"])
    architecture = arguments.get("net_arch")
    if isinstance(architecture, list) and architecture and isinstance(architecture[0], dict):
        arguments["net_arch"] = architecture[0]  # format of releases before 1.8
    schedule = [lambda _: 0.0] if "lr_schedule" in takes else []
    try:
        return data["policy_class"](*spaces, *schedule, **arguments)
    except Exception as error:
        raise CheckpointError(
            f"{path}: the policy class {data['policy_class']} cannot be created: {type(error).__name__}: {error}"
        ) from error


def _vecnormalize(source: Any) -> Any:
    """A VecNormalize, loaded if the source is a path."""
    if source is None or source is False:
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.is_file():
            raise CheckpointError(f"VecNormalize file not found: {path}.")
        library("stable_baselines3.common.vec_env", "sb3")
        try:
            source = pickle.loads(path.read_bytes())
        except Exception as error:
            raise CheckpointError(
                f"{path} cannot be loaded as a VecNormalize: {type(error).__name__}: {error}"
            ) from error
    for name in ("norm_obs", "clip_obs", "epsilon"):
        attribute(source, name, what=f"`{name}` of a VecNormalize")
    return source
