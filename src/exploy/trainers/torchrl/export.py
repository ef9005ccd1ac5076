"""Exports TorchRL policies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from exploy.driver.policy_export import ExportOptions
from exploy.driver.policy_export import export_policy as export_network
from exploy.errors import PolicyError
from exploy.policy.policy import BATCH, Policy
from exploy.trainers.torchrl.modules import module_stages, require_policy
from exploy.trainers.torchrl.policy import TorchRlPolicy, exploration_of, is_random
from exploy.trainers.torchrl.stages import chain_of
from exploy.trainers.torchrl.tensordicts import Key, Layout, as_key, as_keys
from exploy.trainers.torchrl.transforms import inverse_stages, transform_stages

Memories = Sequence[Any] | Mapping[Any, Any]


def export_policy(
    policy: Any,
    example: Any,
    path: str | Path,
    *,
    transforms: Any = None,
    out_keys: Sequence[Any] = ("action",),
    exploration: Any = None,
    memories: Memories | None = None,
    **options: Unpack[ExportOptions],
) -> Path:
    """Export a TorchRL policy with the transforms of its environment, but without the environment.

    Args:
        policy: A TensorDictModule, a TensorDictSequential or another module with `in_keys` and `out_keys`.
        example: A tensordict or a dictionary of tensors with all keys that are read, as the base environment returns
            them. Shapes and dtypes are taken from it. Its first batch dimension is the number of robots.
        path: The file to write.
        transforms: The transforms of observations before the policy and of actions after it: one transform, a list of
            transforms, or the TransformedEnv itself.
        out_keys: The keys of the outputs, the actions first.
        exploration: An ExplorationType or its name. Default: the type set by `set_exploration_type`, else
            deterministic. Random exploration is repeatable with `seed=`.
        memories: Keys whose value is kept for the next step, or a dictionary {read key: written key}. Hidden states of
            recurrent modules, and keys `k` that are read while `("next", k)` is written, are found automatically.
        **options: See `exploy.driver.policy_export.export_policy()`.

    Raises:
        ExployError: If the export fails. The subclass gives the kind of failure.
    """
    actor = actor_from_policy(
        policy, example, transforms=transforms, out_keys=out_keys, exploration=exploration, memories=memories
    )
    if options.get("dynamic_batch") and not any(BATCH in item.shape for item in actor.inputs):
        raise PolicyError(
            "dynamic_batch=True needs an example with a batch dimension for the number of robots. Give a tensordict "
            "whose batch_size is not empty, such as example.unsqueeze(0)."
        )
    return export_network(actor, path, **options)


def actor_from_policy(
    policy: Any,
    example: Any,
    *,
    transforms: Any = None,
    out_keys: Sequence[Any] = ("action",),
    exploration: Any = None,
    memories: Memories | None = None,
) -> Policy:
    """A copy of a TorchRL policy with its transforms; see `export_policy()` for the arguments.

    Raises:
        PolicyError: If the policy cannot be exported. The message names the module, transform or key.
    """
    require_policy(policy)
    outputs = as_keys(out_keys)
    if not outputs:
        raise PolicyError("out_keys must contain at least one key. The key of the actions comes first.")
    kind = exploration_of(exploration)
    layout = Layout(example)
    stages = transform_stages(transforms)
    stages += module_stages(policy, explores=is_random(kind))
    stages += inverse_stages(transforms, outputs[0])
    return TorchRlPolicy(chain_of(stages, outputs, _named(memories)), layout, kind)


def _named(memories: Memories | None) -> dict[Key, Key | None]:
    if isinstance(memories, Mapping):
        return {as_key(read): as_key(written) for read, written in memories.items()}
    return dict.fromkeys(as_keys(memories))
