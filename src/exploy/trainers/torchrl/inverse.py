"""Environment transforms as stages behind the policy, inverted."""

from collections.abc import Callable
from typing import Any

import torch

from exploy.trainers.common.libraries import library
from exploy.trainers.torchrl.copies import own_transform, peek, uninitialized
from exploy.trainers.torchrl.keys import EXTRA, Key, as_keys
from exploy.trainers.torchrl.stages import Block, Everything, PerKey, Refused, Stage
from exploy.trainers.torchrl.transforms import Affine, parts_of, refusal_of


def inverse_stages(transforms: Any, action: Key) -> list[Stage]:
    """What the transforms do to actions, the last one first.

    Args:
        transforms: The transforms.
        action: The key of the actions, for transforms that name none.
    """
    return [stage for part in reversed(parts_of(transforms)) for stage in _inverse_of_one(part, action)]


def _inverse_of_one(transform: Any, action: Key) -> list[Stage]:
    name, label = type(transform).__name__, f"the inverse of {type(transform).__name__}"
    writes, reads = peek(transform, "in_keys_inv"), peek(transform, "out_keys_inv")
    if name in ("DTypeCastTransform", "DoubleToFloat"):
        dtype = transform.dtype_in
        pairs = [(action, action)] if writes is None else list(zip(as_keys(reads), as_keys(writes), strict=True))
        return [PerKey(label, pairs, lambda value: value.to(dtype))]
    if name == "BatchSizeTransform" and transform.reshape_fn is not None:
        parent = peek(transform, "parent")
        return [] if parent is None else [Everything(label, _reshaped_to(tuple(parent.batch_size)))]
    if not writes:
        return []
    reads, writes = as_keys(reads), as_keys(writes)
    copied = _from_its_environment(transform)
    refusal = refusal_of(copied, reads, writes)
    if refusal is not None:
        return [refusal]
    base = library("torchrl.envs", EXTRA).Transform
    if name == "ObservationNorm":
        return [PerKey(label, list(zip(reads, writes, strict=True)), _Inverted(transform))]
    if type(transform)._inv_call is base._inv_call:
        return [PerKey(label, list(zip(reads, writes, strict=True)), copied._inv_apply_transform)]
    if name == "ActionDiscretizer" and not hasattr(copied, "intervals"):
        reason = "ActionDiscretizer was never initialised: read the action_spec of its environment once."
        return [Refused(name, reads, writes, reason)]
    return [Block(label, reads, writes, copied._inv_call)]


def _reshaped_to(batch_size: tuple[int, ...]) -> Callable[[Any], Any]:
    return lambda tensordict: tensordict.reshape(batch_size)


def _from_its_environment(transform: Any) -> Any:
    """A copy that has taken from its environment what it takes from there at its first use."""
    copied, parent = own_transform(transform), peek(transform, "parent")
    if parent is None:
        return copied
    vars(copied)["_parent"] = parent
    if type(transform).__name__ == "ActionScaling" and uninitialized(copied):
        copied._ensure_initialized()
    if type(transform).__name__ == "ActionDiscretizer" and not hasattr(copied, "intervals"):
        copied.transform_input_spec(parent.input_spec.clone())
    vars(copied)["_parent"] = None
    return copied


class _Inverted(Affine):
    """What `ObservationNorm` computes backwards."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value * self.scale + self.loc if self.is_standard else (value - self.loc) / self.scale
