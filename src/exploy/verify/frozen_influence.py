"""Whether changes of frozen tensors can reach an output: judged as `check_environment()` does it."""

import warnings
from collections.abc import Mapping

import numpy as np
import torch

from exploy.capture.capture import ONE_AT_A_TIME, capture
from exploy.capture.garbage_collection import paused_garbage_collection
from exploy.capture.sensitivity import Sensitivity
from exploy.environment.actor import make_exportable_actor
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.live.evaluation_mode import evaluation_mode


def changes_without_influence(
    env: ExportableEnvironment, actor: torch.nn.Module | None, changed: Mapping[str, np.ndarray]
) -> set[str]:
    """The changed tensors that no output depends on. Captures the environment again, and restores it.

    Must not be called while the environment is observed, since a capture runs its code.

    Args:
        env: The environment.
        actor: The actor, if known.
        changed: Flags for the elements of the flattened tensor that have changed, by the name of the tensor.

    Returns:
        Their names. Empty if this cannot be judged: without actor, or if the capture fails.
    """
    if actor is None or not changed:
        return set()
    try:
        with warnings.catch_warnings(), ONE_AT_A_TIME, paused_garbage_collection():
            warnings.simplefilter("ignore")
            with evaluation_mode([actor, *env.context_manager().modules]):
                program = capture(env, make_exportable_actor(actor))
            sensitivity = Sensitivity(program)
            known = [item for item in program.frozen_and_weights if item.name in changed]
            return {
                item.name
                for item in known
                if changed[item.name].size == np.prod(item.shape, dtype=int)
                and not sensitivity.depends_on(item, changed[item.name])
            }
    except Exception:
        return set()
