"""rsl_rl policies (`rsl-rl-lib`): models of versions 4 and 5, actor-critics and students of versions 2 and 3."""

from exploy.trainers.rsl_rl.export import (
    actor_from_checkpoint,
    actor_from_model,
    actor_from_runner,
    export_policy,
)

__all__ = ["actor_from_checkpoint", "actor_from_model", "actor_from_runner", "export_policy"]
