"""Builds rsl_rl policies from a checkpoint and its training configuration, with the library's own classes."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from exploy.errors import CheckpointError
from exploy.trainers.common.checkpoints import entry, load_into, load_tensors
from exploy.trainers.common.configuration import Configuration, read_configuration
from exploy.trainers.common.libraries import library
from exploy.trainers.rsl_rl.builder import (
    EXTRA,
    Builder,
    ObsShapes,
    Shapes,
    as_shapes,
    distribution_classes,
    library_classes,
)

Built = tuple[torch.nn.Module, torch.nn.Module | None, Shapes]

_OTHER_SIDE = {"actor": "critic", "student": "teacher"}
_UNSEEN = "observation of the critic or teacher"
_MEMORIES = {"actor": "memory_a", "student": "memory_s"}


def model_from_checkpoint(path: str | Path, config: Configuration | None, obs_shapes: ObsShapes) -> Built:
    """The model of a checkpoint, its normaliser if that is separate, and the shapes of its observations.

    Raises:
        CheckpointError: If the file is not a checkpoint of rsl_rl, a setting that affects actions is missing, or the
            weights do not match the configuration.
        PolicyError: If rsl_rl is not installed, or a shape is invalid.
    """
    loaded = load_tensors(path)
    keys = ("actor_state_dict", "student_state_dict", "model_state_dict")
    state = entry(loaded, path, *keys, library="rsl_rl")
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise CheckpointError(f"{path} is not a checkpoint of rsl_rl: its weights must be a dictionary of tensors.")
    if config is None:
        raise CheckpointError(
            f"{path} contains only weights. Missing: the class of its network, the activation, the hidden layers, the "
            "distribution, the normalisation and the observation groups. Give config: the training configuration as a "
            "dictionary, or the path of its agent.yaml."
        )
    build = _Legacy if "model_state_dict" in loaded else _Model
    return build(path, loaded, state, read_configuration(config, EXTRA), as_shapes(obs_shapes)).built()


class _Model(Builder):
    """Checkpoints of versions 4 and 5: a state dictionary for each model."""

    def built(self) -> Built:
        """The actor, or the student."""
        side = "actor" if "actor_state_dict" in self.loaded else "student"
        section = self.section(side)
        images = {key.split(".")[1] for key in self.state if key.startswith("cnns.")}
        groups = self.groups(side)
        shapes = self.shapes(groups, images, self.width("obs_normalizer", "rnn", "mlp"))
        kind = self.class_of(section, side, library_classes("rsl_rl.models", "obs_groups"))
        arguments = self.arguments(section, side, kind) if kind is not None else {}
        self.cnn_arguments(arguments, f"{side}.cnn_cfg", images)
        heads = self._take_head(arguments, side)
        self.require_keys()
        assert kind is not None
        actions = self.actions("mlp", heads)
        model = self.made(lambda: kind(_zeros(shapes), {side: list(groups)}, side, actions, **arguments), kind.__name__)
        load_into(model, self.state, self.path, f"the {kind.__name__} of its configuration")
        return model, None, shapes

    def _take_head(self, arguments: dict[str, Any], side: str) -> int:
        """Replace the name of the distribution by its class. Return the number of values per action."""
        section = arguments.get("distribution_cfg")
        if not isinstance(section, Mapping):
            return 2 if arguments.get("stochastic") and arguments.get("state_dependent_std") else 1
        section, where = dict(section), f"{side}.distribution_cfg"
        head = self.class_of(section, where, distribution_classes())
        options = self.arguments(section, where, head) if head is not None else {}
        self.require_keys()
        assert head is not None
        arguments["distribution_cfg"] = {"class_name": head, **options}
        made: Any = self.made(lambda: head(1, **options), head.__name__)
        return made.input_dim if isinstance(made.input_dim, int) else int(torch.Size(made.input_dim).numel())


class _Legacy(Builder):
    """Checkpoints of versions 2 and 3: one state dictionary. The critic or teacher in it is not loaded."""

    def built(self) -> Built:
        """The actor-critic or student-teacher, and the normaliser of version 2."""
        section = self.section("policy")
        classes = library_classes("rsl_rl.modules", "act_inference")
        kind = self.class_of(section, "policy", classes)
        parameters = inspect.signature(kind).parameters if kind is not None else {}
        side = "student" if "student_hidden_dims" in parameters else "actor"
        by_group = any("obs_groups" in inspect.signature(item).parameters for item in classes.values())
        other = _other_side(side, parameters)
        self._take_old_names(section, parameters)
        arguments = self.arguments(section, "policy", kind, other) if kind is not None else {}
        images = {key.split(".")[1] for key in self.state if key.startswith("actor_cnns.")}
        self.cnn_arguments(arguments, "policy.actor_cnn_cfg", images)
        groups = self.groups("policy") if by_group else ("obs",)
        width = self.width(f"{side}_obs_normalizer", _MEMORIES[side], side)
        shapes = self.shapes(groups, images, width)
        normalizer = None if by_group else self._normalizer(width)
        self.require_keys()
        assert kind is not None
        actions = self._actions(side, bool(arguments.get("state_dependent_std")))
        unseen = _OTHER_SIDE[side]
        observed: tuple[Any, ...] = (
            (_zeros({**shapes, _UNSEEN: (1,)}), {"policy": list(groups), unseen: [_UNSEEN]})
            if by_group
            else (*shapes["obs"], 1)
        )
        model = self.made(lambda: kind(*observed, actions, **arguments, **other), kind.__name__)
        self._load_side(model, unseen)
        return model, normalizer, shapes

    def _actions(self, side: str, two_heads: bool) -> int:
        """The number of actions. The noise parameters must be consistent with the number of heads."""
        actions = self.actions(side, 2 if two_heads else 1)
        noise = self.state.get("std", self.state.get("log_std"))
        if (noise is None) != two_heads or (noise is not None and noise.shape != (actions,)):
            found = "no `std`" if noise is None else f"`std` of shape {tuple(noise.shape)}"
            raise CheckpointError(
                f"{self.path} does not match the configuration: it has {found} for {actions} actions with "
                f"state_dependent_std={two_heads}. Install the version of rsl-rl-lib that trained the policy."
            )
        return actions

    def _take_old_names(self, section: dict[str, Any], parameters: Mapping[str, Any]) -> None:
        """Rename settings of earlier versions, as the library does."""
        if "rnn_hidden_dim" in parameters and "rnn_hidden_size" in section:
            section.setdefault("rnn_hidden_dim", section.pop("rnn_hidden_size"))
        normalized = self.config.get("empirical_normalization")
        for name in ("actor_obs_normalization", "student_obs_normalization"):
            if name in parameters and normalized is not None and section.get(name) is None:
                section[name] = normalized

    def _normalizer(self, width: int | None) -> torch.nn.Module:
        """The normaliser, which belongs to the runner in version 2."""
        normalized, state = self.config.get("empirical_normalization"), self.loaded.get("obs_norm_state_dict")
        if normalized is None:
            self.missing.append("empirical_normalization")
            return torch.nn.Identity()
        if bool(normalized) != (state is not None):
            raise CheckpointError(
                f"{self.path} has {'no' if state is None else 'an'} entry 'obs_norm_state_dict', but the configuration "
                f"has empirical_normalization={normalized!r}. Give the configuration of this checkpoint."
            )
        if state is None:
            return torch.nn.Identity()
        made: torch.nn.Module = library("rsl_rl.modules", EXTRA).EmpiricalNormalization(shape=[width])
        load_into(made, state, self.path, f"a normaliser of {width} values")
        return made

    def _load_side(self, model: torch.nn.Module, other: str) -> None:
        """Load everything except the critic or teacher, which is not needed for actions."""
        left_out = (other, f"memory_{other[0]}", "std", "log_std")
        known = {name for name, _ in model.named_children()}
        unknown = [key for key in self.state if key.split(".")[0] not in known and not key.startswith(left_out)]
        if unknown:
            raise CheckpointError(
                f"{self.path} does not match the {type(model).__name__} of its configuration: unknown "
                f"{', '.join(unknown[:6])}."
            )
        for name, part in model.named_children():
            if not name.startswith(left_out):
                start = f"{name}."
                state = {key.removeprefix(start): value for key, value in self.state.items() if key.startswith(start)}
                load_into(part, state, self.path, f"`{name}` of the {type(model).__name__} of its configuration")


def _other_side(side: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Minimal arguments for the critic or teacher, which is not exported."""
    other = _OTHER_SIDE[side]
    values = {
        f"{other}_hidden_dims": [1],
        f"{other}_obs_normalization": False,
        f"{other}_cnn_cfg": None,
        f"{other}_recurrent": False,
    }
    return {name: value for name, value in values.items() if name in parameters}


def _zeros(shapes: Shapes) -> dict[str, torch.Tensor]:
    return {name: torch.zeros(1, *shape, dtype=torch.float32) for name, shape in shapes.items()}
