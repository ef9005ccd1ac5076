"""Reads from VecEnv wrappers what they do to observations."""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from exploy.errors import PolicyError
from exploy.policy.policy import BATCH, PolicyInput
from exploy.trainers.sb3.observation_path import OBS, ObservationPath, Statistics, resized

Paths = dict[str | None, ObservationPath]  # by the policy's observation key; None if observations are not a Dict

_LEAVE_OBSERVATIONS_ALONE = ("VecMonitor", "VecCheckNan", "VecVideoRecorder")
_KNOWN = ("VecNormalize", "VecTransposeImage", "VecFrameStack", "VecExtractDictObs", *_LEAVE_OBSERVATIONS_ALONE)


def observation_paths(
    policy_space: Any, env: Any, vecnormalize: Any, frame_stack: int | None, transpose_images: bool | None
) -> Paths:
    """The processing of all observations, from the environment's wrappers or from the given options.

    Args:
        policy_space: The observation space of the policy.
        env: The outermost wrapper of the vectorised environment. None if there is no environment.
        vecnormalize: A VecNormalize that replaces the one of the environment.
        frame_stack: Number of stacked frames.
        transpose_images: Whether the channels of images are moved to the front.

    Raises:
        PolicyError: If the processing is unknown, or does not match the policy.
    """
    if env is not None and frame_stack is None and transpose_images is None:
        paths = _from_environment(env, vecnormalize)
    else:
        if vecnormalize is None:
            vecnormalize = next((item for item in _wrappers(env) if type(item).__name__ == "VecNormalize"), None)
        paths = _from_options(policy_space, vecnormalize, frame_stack, transpose_images)
    expected = {key: _shape(space) for key, space in _by_key(policy_space).items()}
    found = {key: path.shape for key, path in paths.items()}
    if found != expected:
        raise PolicyError(
            f"After the wrappers, observations have the shapes {_in_words(found)}, but the policy reads "
            f"{_in_words(expected)}. Describe the wrappers with vecnormalize=, frame_stack= and transpose_images=."
        )
    return paths


def _from_environment(env: Any, vecnormalize: Any) -> Paths:
    """The processing of all wrappers, from the innermost to the outermost."""
    wrappers = list(_wrappers(env))[::-1]
    names = [_known_name(wrapper) for wrapper in wrappers]
    paths = _raw_paths((wrappers[0].venv if wrappers else env).observation_space)
    for name, wrapper in zip(names, wrappers, strict=True):
        if name == "VecNormalize":
            _normalize(paths, wrapper if vecnormalize is None else vecnormalize)  # False disables it
        elif name == "VecTransposeImage" and not wrapper.skip:
            is_dictionary = None not in paths
            for key in wrapper.image_space_keys if is_dictionary else [None]:
                paths[key].transpose()
        elif name == "VecFrameStack":
            for key, path in paths.items():
                stacked = wrapper.stacked_obs if key is None else wrapper.stacked_obs.sub_stacked_observations[key]
                path.stack(stacked.n_stack, 0 if stacked.channels_first else -1)
        elif name == "VecExtractDictObs":
            paths = {None: paths[wrapper.key]}
    if vecnormalize is not None and "VecNormalize" not in names:
        _normalize(paths, vecnormalize)
    return paths


def _from_options(
    policy_space: Any, vecnormalize: Any, frame_stack: int | None, transpose_images: bool | None
) -> Paths:
    """Stack frames, then transpose. Normalise at the first point where the shape of the statistics matches."""
    count = _validated_frame_stack(frame_stack)
    if not isinstance(transpose_images, bool | None):
        raise PolicyError(f"transpose_images must be True or False, got {transpose_images!r}.")
    paths: Paths = {}
    for key, space in _by_key(policy_space).items():
        is_image = _is_channels_first_image(space)
        if is_image and transpose_images is None:
            raise PolicyError(
                f"The policy reads {key or OBS!r} as images with channels first, but the layout of the raw images is "
                "unknown. Give transpose_images=True if their channels are last, as in gymnasium's environments, or "
                "transpose_images=False."
            )
        is_transposed = is_image and bool(transpose_images)
        axis = 0 if is_image and not is_transposed else -1
        if count > 1 and not is_image and len(_shape(space)) > 1:
            raise PolicyError(
                f"The policy reads {key or OBS!r} of shape {_shape(space)}, but the axis along which its frames are "
                "stacked is unknown. Export the live algorithm with its environment."
            )
        shape = _shape_before(_shape(space), count, axis, is_transposed, key)
        paths[key] = path = ObservationPath(_port(key, space, shape), shape)
        statistics = _normalize_if_it_fits(path, _statistics(vecnormalize, key))
        if count > 1:
            path.stack(count, axis)
            statistics = _normalize_if_it_fits(path, statistics)
        if is_transposed:
            path.transpose()
        if statistics is not None:
            path.normalize(statistics)
    return paths


def _wrappers(env: Any) -> Iterator[Any]:
    """All wrappers of a vectorised environment, starting with the outermost."""
    while hasattr(env, "venv"):
        yield env
        env = env.venv


def _known_name(wrapper: Any) -> str:
    """The name of a supported wrapper of the library.

    Raises:
        PolicyError: If the wrapper is not supported, because what it does to observations is unknown.
    """
    name = type(wrapper).__name__
    if name in _KNOWN and type(wrapper).__module__.startswith("stable_baselines3."):
        return name
    raise PolicyError(
        f"The environment has the wrapper {name}, and what it does to observations is unknown. Remove it "
        "(model.env = …), or describe the other wrappers with vecnormalize=, frame_stack= and transpose_images=."
    )


def _normalize(paths: Paths, vecnormalize: Any) -> None:
    for key, path in paths.items():
        statistics = _statistics(vecnormalize, key)
        if statistics is not None:
            path.normalize(statistics)


def _normalize_if_it_fits(path: ObservationPath, statistics: Statistics | None) -> Statistics | None:
    """Normalise if the statistics match the current shape. Return the statistics if they were not used."""
    if statistics is None or statistics.mean.shape != path.shape:
        return statistics
    path.normalize(statistics)
    return None


def _statistics(vecnormalize: Any, key: str | None) -> Statistics | None:
    """The statistics that a VecNormalize applies to an observation, or None if it does not normalise it."""
    if not vecnormalize or not vecnormalize.norm_obs:
        return None
    running = vecnormalize.obs_rms
    if isinstance(running, dict) != (key is not None):
        kinds = ("a dictionary", "one tensor")
        is_dictionary = isinstance(running, dict)
        raise PolicyError(
            f"The VecNormalize is for observations that are {kinds[not is_dictionary]}, but the policy reads "
            f"{kinds[is_dictionary]}. Give the VecNormalize of this policy."
        )
    if key is not None:
        if key not in (vecnormalize.norm_obs_keys or ()):
            return None
        running = running[key]
    return Statistics(running.mean, running.var, float(vecnormalize.epsilon), float(vecnormalize.clip_obs))


def _raw_paths(space: Any) -> Paths:
    return {key: ObservationPath(_port(key, part, _shape(part)), _shape(part)) for key, part in _by_key(space).items()}


def _by_key(space: Any) -> dict[str | None, Any]:
    spaces = getattr(space, "spaces", None)
    if isinstance(spaces, tuple | list):
        raise PolicyError("Stable-Baselines3 does not support Tuple observation spaces. Use a Dict or Box space.")
    return dict(spaces.items()) if spaces is not None else {None: space}


def _port(key: str | None, space: Any, shape: tuple[int, ...]) -> PolicyInput:
    dtype = torch.from_numpy(np.zeros(0, dtype=space.dtype)).dtype
    numbers = getattr(space, "nvec", getattr(space, "n", None))
    is_binary = type(space).__name__ == "MultiBinary"
    high = 2 if is_binary else int(np.min(numbers)) if numbers is not None else 256
    return PolicyInput(key or OBS, (BATCH, *shape), dtype, high)


def _shape(space: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in space.shape)


def _is_channels_first_image(space: Any) -> bool:
    preprocessing = importlib.import_module("stable_baselines3.common.preprocessing")
    return bool(preprocessing.is_image_space(space) and preprocessing.is_image_space_channels_first(space))


def _shape_before(
    shape: tuple[int, ...], count: int, axis: int, is_transposed: bool, key: str | None
) -> tuple[int, ...]:
    """The shape of one raw observation, computed from the shape that the policy reads."""
    if is_transposed:
        shape = (*shape[1:], shape[0])
    if count > 1 and (not shape or shape[axis] % count):
        raise PolicyError(f"The policy reads {key or OBS!r} of shape {shape}, which cannot be {count} stacked frames.")
    return resized(shape, axis, shape[axis] // count) if count > 1 else shape


def _validated_frame_stack(count: int | None) -> int:
    if count is None:
        return 1
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise PolicyError(f"frame_stack must be an integer of 1 or more, got {count!r}.")
    return count


def _in_words(shapes: dict[str | None, tuple[int, ...]]) -> str:
    return ", ".join(f"{key or OBS} {shape}" for key, shape in shapes.items())
