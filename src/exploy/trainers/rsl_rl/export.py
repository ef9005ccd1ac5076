"""Converts an rsl_rl runner, model or checkpoint to an actor or a file."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Unpack

import torch

from exploy.driver.policy_export import ExportOptions
from exploy.driver.policy_export import export_policy as export_network
from exploy.errors import PolicyError
from exploy.policy.copies import own_copy
from exploy.policy.normalization import require_matching_size
from exploy.policy.policy import BATCH, Policy, PolicyInput
from exploy.trainers.common.attributes import attribute
from exploy.trainers.common.configuration import Configuration
from exploy.trainers.rsl_rl.builder import ObsShapes, as_shapes
from exploy.trainers.rsl_rl.checkpoint import model_from_checkpoint
from exploy.trainers.rsl_rl.policy import RslRlPolicy

OBS = "obs"


def export_policy(
    source: Any,
    path: str | Path,
    *,
    config: Configuration | None = None,
    normalizer: torch.nn.Module | None = None,
    obs_shapes: ObsShapes | None = None,
    **options: Unpack[ExportOptions],
) -> Path:
    """Export an rsl_rl policy to one file.

    Args:
        source: A runner, a model or actor-critic, or the path of a checkpoint.
        path: The file to write.
        config: The training configuration of a checkpoint, or the path of its `agent.yaml`.
        normalizer: The normaliser for an actor-critic of version 2, which does not contain it.
        obs_shapes: Shapes of observation groups that cannot be read from the source.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Returns:
        The path of the file.

    Raises:
        ExployError: If the export fails. The subclass gives the kind of failure; see the functions `actor_from_…()`.
    """
    if isinstance(source, str | Path):
        if normalizer is not None:
            raise PolicyError("A checkpoint contains its normaliser. `normalizer` is for a live actor-critic.")
        return export_network(actor_from_checkpoint(source, config=config, obs_shapes=obs_shapes), path, **options)
    if config is not None:
        raise PolicyError("A live policy contains its configuration. `config` is for checkpoints.")
    if not hasattr(source, "alg"):
        policy = actor_from_model(source, normalizer=normalizer, obs_shapes=obs_shapes)
        return export_network(policy, path, **options)
    if normalizer is not None:
        raise PolicyError("A runner contains its normaliser. `normalizer` is for an actor-critic without its runner.")
    return export_network(actor_from_runner(source, obs_shapes=obs_shapes), path, **options)


def actor_from_runner(runner: Any, *, obs_shapes: ObsShapes | None = None) -> Policy:
    """A copy of the policy that a runner trains, with its normaliser. For distillation it is the student.

    Args:
        runner: An OnPolicyRunner or DistillationRunner.
        obs_shapes: Shapes of observation groups. Needed if they cannot be read from the storage of the runner.

    Raises:
        PolicyError: If it is not an rsl_rl runner, or its policy cannot be exported.
    """
    algorithm = attribute(runner, "alg", what="algorithm")
    found = attribute(algorithm, "get_policy", "policy", "actor_critic", what="policy")
    return actor_from_model(
        found if isinstance(found, torch.nn.Module) else found(),
        normalizer=getattr(runner, "obs_normalizer", None),
        obs_shapes={**_stored_shapes(algorithm), **(obs_shapes or {})},
    )


def actor_from_checkpoint(
    path: str | Path, *, config: Configuration | None = None, obs_shapes: ObsShapes | None = None
) -> Policy:
    """The policy of a checkpoint, built by the installed rsl_rl. Only tensors and plain values are read from files.

    Args:
        path: A file that the runner saved.
        config: The training configuration, or the path of its `agent.yaml`. Required: weights alone are not enough.
        obs_shapes: Widths of observation groups if several share the network, and shapes of images.

    Raises:
        CheckpointError: If the file is not a checkpoint of rsl_rl, settings that affect actions are missing (all are
            listed), or the weights do not match the configuration.
        PolicyError: If rsl_rl is not installed, or the policy cannot be exported.
    """
    model, normalizer, shapes = model_from_checkpoint(path, config, obs_shapes or {})
    return actor_from_model(model, normalizer=normalizer, obs_shapes=shapes)


def actor_from_model(
    model: Any, *, normalizer: torch.nn.Module | None = None, obs_shapes: ObsShapes | None = None
) -> Policy:
    """A copy of a model, actor-critic or student-teacher, as the library runs it at inference.

    Args:
        model: A model of version 4 or 5, a policy of version 2 or 3, or its bound `act_inference`.
        normalizer: `runner.obs_normalizer` of version 2, whose policies do not contain it. An Identity if not used.
        obs_shapes: Widths of observation groups if the model has several, and shapes of images.

    Raises:
        PolicyError: If it is not an rsl_rl model, the shape of an observation is unknown, the normaliser does not
            match, or inference fails, for example for a distribution without a deterministic form.
    """
    model = own_copy(_module_of(model))
    reading = _Reading.of(model)
    _require_no_normalizer(reading, normalizer, type(model).__name__)
    shapes = _shapes(reading, obs_shapes or {}, type(model).__name__)
    names = (OBS,) if len(reading.groups) == 1 else reading.groups
    inputs = [PolicyInput(name, (BATCH, *shapes[group])) for name, group in zip(names, reading.groups, strict=True)]
    width = sum(shapes[group][0] for group in reading.flat)
    for what, statistics in _statistics(model, normalizer):
        require_matching_size(what, statistics, ", ".join(reading.flat), (BATCH, width))
    return RslRlPolicy(model, own_copy(normalizer), inputs, reading.groups if reading.by_group else None)


@dataclasses.dataclass(frozen=True)
class _Reading:
    """The inputs of a model, where they are known.

    Args:
        groups: Its observation groups, in the model's order.
        flat: The groups that are concatenated to one vector.
        width: The length of that vector, if known.
        images: Shapes of the other groups, if known.
        by_group: Whether it takes a mapping of groups. Otherwise it takes one normalised tensor.
    """

    groups: tuple[str, ...]
    flat: tuple[str, ...]
    width: int | None
    images: Mapping[str, tuple[int, ...]]
    by_group: bool = True

    @classmethod
    def of(cls, model: torch.nn.Module) -> "_Reading":
        """Inspect a model of version 4 or 5, or a policy of version 2 or 3."""
        groups: Any = attribute(model, "obs_groups", "act_inference", what="observation groups or inference method")
        if hasattr(model, "act_inference"):
            return cls._of_policy(model)
        images: Any = getattr(model, "obs_groups_2d", ())
        channels, sizes = getattr(model, "obs_channels_2d", ()), getattr(model, "obs_dims_2d", ())
        return cls(
            groups=(*groups, *images),
            flat=tuple(groups),
            width=getattr(model, "obs_dim", None),
            images={
                name: (int(channel), *map(int, size))
                for name, channel, size in zip(images, channels, sizes, strict=False)
            },
        )

    @classmethod
    def _of_policy(cls, model: Any) -> "_Reading":
        width = _width_of_policy(model)
        if not hasattr(model, "obs_groups"):
            return cls((OBS,), (OBS,), width, {}, by_group=False)
        groups = attribute(model, "obs_groups", what="observation groups")
        if "policy" not in groups:
            raise PolicyError(
                f"The observation groups of {type(model).__name__} must contain 'policy', got {dict(groups)}."
            )
        flat = getattr(model, "actor_obs_groups_1d", groups["policy"])
        return cls(tuple(groups["policy"]), tuple(flat), width, {})


def _width_of_policy(model: Any) -> int | None:
    """The width of the observations of an actor-critic or student, from its normaliser, RNN or first layer."""
    for name in ("actor_obs_normalizer", "student_obs_normalizer"):
        mean = getattr(getattr(model, name, None), "_mean", None)
        if mean is not None:
            return int(mean.shape[-1])
    for name in ("memory_a", "memory_s"):
        rnn = getattr(getattr(model, name, None), "rnn", None)
        if rnn is not None:
            return int(rnn.input_size)
    network = getattr(model, "student", None) or getattr(model, "actor", None)
    if isinstance(network, torch.nn.Sequential) and getattr(model, "actor_cnns", None) is None:
        first = next(iter(network), None)
        return first.in_features if isinstance(first, torch.nn.Linear) else None
    return None


def _shapes(reading: _Reading, given: ObsShapes, kind: str) -> dict[str, tuple[int, ...]]:
    """The shape of one observation of each group."""
    known = dict(reading.images)
    if len(reading.flat) == 1 and reading.width is not None:
        known[reading.flat[0]] = (reading.width,)
    told = as_shapes(given)
    missing = [name for name in reading.groups if name not in {**told, **known}]
    if missing:
        raise PolicyError(
            f"{kind} reads {', '.join(reading.groups)}, but the shape of {', '.join(missing)} is unknown. Give it as "
            f"obs_shapes={{{', '.join(f'{name!r}: …' for name in missing)}}}: a width, or (channels, height, width)."
        )
    shapes = {name: told.get(name, known.get(name, ())) for name in reading.groups}
    wrong = [name for name in reading.groups if shapes[name] != known.get(name, shapes[name])]
    if wrong:
        raise PolicyError(
            f"obs_shapes does not match {kind}: {', '.join(f'{n} {shapes[n]}, not {known[n]}' for n in wrong)}."
        )
    width = sum(shapes[name][0] for name in reading.flat)
    if reading.width not in (None, width):
        widths = ", ".join(f"{name} {shapes[name][0]}" for name in reading.flat)
        raise PolicyError(f"{kind} reads {reading.width} values in total, but obs_shapes gives {width}: {widths}.")
    return shapes


def _stored_shapes(algorithm: Any) -> dict[str, tuple[int, ...]]:
    """Shapes of the observations that an algorithm stores, of shape (steps, robots, …)."""
    stored = getattr(getattr(algorithm, "storage", None), "observations", None)
    by_group = {OBS: stored} if isinstance(stored, torch.Tensor) else dict(stored.items()) if stored is not None else {}
    return {name: tuple(value.shape[2:]) for name, value in by_group.items() if isinstance(value, torch.Tensor)}


def _module_of(model: Any) -> torch.nn.Module:
    owner = model.__self__ if inspect.ismethod(model) else model
    if isinstance(owner, torch.nn.Module):
        return owner
    raise PolicyError(
        f"An rsl_rl policy must be a torch.nn.Module, got {type(owner).__module__}.{type(owner).__name__}. Give the "
        "runner, its model or actor-critic, or the path of a checkpoint."
    )


def _require_no_normalizer(reading: _Reading, normalizer: Any, kind: str) -> None:
    if reading.by_group and normalizer is not None:
        raise PolicyError(f"{kind} normalises its observations itself. Leave out `normalizer`.")
    if not reading.by_group and not isinstance(normalizer, torch.nn.Module):
        raise PolicyError(
            f"{kind} is from a version of rsl_rl in which the runner has the normaliser. Give "
            "normalizer=runner.obs_normalizer (torch.nn.Identity() if observations were not normalised), or use "
            "actor_from_runner(). Got "
            f"{type(normalizer).__name__}."
        )


def _statistics(model: torch.nn.Module, given: torch.nn.Module | None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The normalisers of a policy, with the shapes of their statistics."""
    own = ("obs_normalizer", "actor_obs_normalizer", "student_obs_normalizer")
    for name, module in (*((name, getattr(model, name, None)) for name in own), ("normalizer", given)):
        mean = getattr(module, "_mean", None)
        if isinstance(mean, torch.Tensor):
            yield f"`{name}`", tuple(mean.shape[1:])
