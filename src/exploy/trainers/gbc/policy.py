"""GBC policies with their normalisers: transformers with or without reference observations, LSTM and GRU."""

import contextlib
import inspect
from pathlib import Path
from typing import Any

import torch

from exploy.errors import CheckpointError, PolicyError
from exploy.policy.copies import own_copy
from exploy.policy.normalization import require_matching_size
from exploy.policy.policy import BATCH, Policy, PolicyInput, Tensors
from exploy.policy.recurrent import rnn_states, rnn_step
from exploy.trainers.common.attributes import attribute
from exploy.trainers.common.checkpoints import entry, load_into, load_tensors
from exploy.trainers.common.trial import trial_inputs

OBS, REF_OBS, REF_MASK = "obs", "ref_obs", "ref_mask"
_STATISTICS = {"normalizer": "obs_norm_state_dict", "ref_normalizer": "ref_obs_norm_state_dict"}


def actor_from_model(actor_critic: Any, normalizer: Any = None, ref_normalizer: Any = None) -> Policy:
    """A copy of the actor of an actor-critic, with its normalisers.

    Raises:
        PolicyError: If it is not a GBC actor-critic, or a normaliser does not match it.
    """
    actor = attribute(actor_critic, "actor", what="actor")
    if not isinstance(actor, torch.nn.Module):
        raise PolicyError(f"The attribute `actor` must be a torch.nn.Module, got {type(actor).__name__}.")
    is_recurrent = bool(getattr(actor_critic, "is_recurrent", False))
    rnn = attribute(actor_critic, "memory_a.rnn", what="recurrent network of the actor") if is_recurrent else None
    policy = GbcPolicy(own_copy(actor), own_copy(rnn), _module(normalizer), _module(ref_normalizer))
    _require_library_inference(actor_critic, policy)
    return policy


def actor_from_checkpoint(
    path: str | Path, *, model: torch.nn.Module | None = None, normalizer: Any = None, ref_normalizer: Any = None
) -> Policy:
    """The actor with the weights of a checkpoint. The checkpoint does not describe the network.

    Args:
        path: A checkpoint with a `model_state_dict` and, if they were saved, the statistics of the normalisers.
        model: The actor-critic that the weights belong to. It is not changed.
        normalizer: The normaliser of `obs`. The checkpoint's `obs_norm_state_dict` is loaded into a copy, if present.
        ref_normalizer: The normaliser of `ref_obs`. Likewise for the checkpoint's `ref_obs_norm_state_dict`.

    Raises:
        CheckpointError: If the checkpoint is of another library or another network, or an argument is missing.
        PolicyError: If the model is not a GBC actor-critic.
    """
    loaded = load_tensors(path)
    weights = entry(loaded, path, "model_state_dict", library="GBC")
    given = {"normalizer": _module(normalizer), "ref_normalizer": _module(ref_normalizer)}
    missing = [] if model is not None else ["model= (the actor-critic module that the weights belong to)"]
    left_out = [name for name, module in given.items() if module is None and _STATISTICS[name] in loaded]
    missing += [f"{name}= (its statistics are in {_STATISTICS[name]!r})" for name in left_out]
    if missing or model is None:
        raise CheckpointError(f"{path} does not contain the complete policy. Missing: {'; '.join(missing)}.")
    copied = own_copy(model)
    load_into(copied, weights, path, "the model")
    for name, module in given.items():
        if module is not None and _STATISTICS[name] in loaded:
            load_into(module, loaded[_STATISTICS[name]], path, f"the {name}")
    return actor_from_model(copied, given["normalizer"], given["ref_normalizer"])


def _require_library_inference(actor_critic: Any, policy: "GbcPolicy") -> None:
    """Raise if the actor-critic's own inference computes something else than its actor."""
    infer = getattr(own_copy(actor_critic), "act_inference", None)
    if infer is None or policy.rnn is not None:
        return
    (obs, *reference), _ = trial_inputs(policy)
    normalized = policy.normalizer(obs)
    with torch.no_grad(), contextlib.suppress(TypeError):  # act_inference() with other arguments is not checked
        own = infer(normalized, (policy.ref_normalizer(reference[0]), reference[1])) if reference else infer(normalized)
        (actions,), _ = policy.step((obs, *reference), ())
        if isinstance(own, torch.Tensor) and not torch.allclose(own, actions, atol=1e-5):
            raise PolicyError(
                f"act_inference() of {type(actor_critic).__name__} returns other actions than its `actor`. Only the "
                "actor is exported, so move the additional computation into it."
            )


class GbcPolicy(Policy):
    """Normalisers, recurrent network and actor of GBC. Only the actor is required.

    Raises:
        PolicyError: If the width of an observation cannot be found, or a normaliser has a different width.
    """

    def __init__(
        self,
        actor: torch.nn.Module,
        rnn: torch.nn.RNNBase | None,
        normalizer: torch.nn.Module | None,
        ref_normalizer: torch.nn.Module | None,
    ):
        reference = getattr(actor, "ref_obs_embedding", None)
        width = rnn.input_size if rnn is not None else _width(actor, "obs_embedding")
        inputs = [PolicyInput(OBS, (BATCH, width))]
        if reference is not None:
            inputs.append(PolicyInput(REF_OBS, (BATCH, _width(actor, "ref_obs_embedding"))))
            inputs.append(PolicyInput(REF_MASK, (BATCH,), torch.bool))
        super().__init__(inputs, rnn_states(rnn) if rnn is not None else (), libraries=("rsl-rl-lib",))
        if ref_normalizer is not None and reference is None:
            raise PolicyError(
                "A second normaliser is given, but the actor reads no reference observations. Omit ref_normalizer=."
            )
        self.actor = actor
        self.rnn = rnn
        self.normalizer = _fitting("The normaliser", normalizer, inputs[0])
        self.ref_normalizer = _fitting("The second normaliser", ref_normalizer, inputs[1 % len(inputs)])
        self._takes_reference = _takes_two_arguments(actor)

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        """Compute the actions and, for a recurrent policy, the next state."""
        features = self.normalizer(inputs[0])
        if self.rnn is not None:
            features, states = rnn_step(self.rnn, features, states)
        if len(self.inputs) > 1:
            reference = (self.ref_normalizer(inputs[1]), inputs[2])
            return (self.actor(features, reference),), states
        return (self.actor(features, None) if self._takes_reference else self.actor(features),), states


def _module(normalizer: Any) -> torch.nn.Module | None:
    """A copy of a normaliser, or None."""
    if not isinstance(normalizer, torch.nn.Module | None):
        raise PolicyError(f"A normaliser must be a torch.nn.Module, got {type(normalizer).__name__}.")
    return own_copy(normalizer)


def _fitting(what: str, normalizer: torch.nn.Module | None, observation: PolicyInput) -> torch.nn.Module:
    if normalizer is None:
        return torch.nn.Identity()
    mean = getattr(normalizer, "_mean", getattr(normalizer, "running_mean", getattr(normalizer, "mean", None)))
    if isinstance(mean, torch.Tensor):
        require_matching_size(what, tuple(mean.shape[-1:]), observation.name, observation.shape)
    return normalizer


def _width(actor: torch.nn.Module, name: str) -> int:
    """The number of elements that an embedding takes, for all supported forms of embeddings."""
    embedding = attribute(actor, name, what="embedding of observations")
    term_sizes = getattr(embedding, "term_dims", None)
    if getattr(embedding, "embeddings", None) is not None and term_sizes is not None:
        return sum(int(size) for size in term_sizes)
    first = attribute(embedding, "embedding", "embeddings", what="width")
    first = first[0] if isinstance(first, torch.nn.Sequential) else first
    if not isinstance(first, torch.nn.Linear):
        raise PolicyError(
            f"The width of {name} cannot be found: looked for a Linear as `embedding` or as its first layer, found "
            f"{type(first).__name__}; and for `embeddings` with `term_dims`."
        )
    positions = getattr(embedding, "pos_embedding", None)
    if first.in_features == 1 and isinstance(positions, torch.nn.Embedding):
        return positions.num_embeddings  # each element of the observation is one token
    return first.in_features


def _takes_two_arguments(actor: torch.nn.Module) -> bool:
    parameters = list(inspect.signature(actor.forward).parameters.values())
    positional = [item for item in parameters if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1
