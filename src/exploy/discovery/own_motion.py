"""Tells state that a simulator moves on from a copy that step() has made of other values."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from exploy.capture.program import FrozenTensor
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.environment.observations import step_environment, validated_observations
from exploy.live.snapshot import Snapshot
from exploy.verify.frozen_watch import as_array

_MOST_ELEMENTS = 4


def continues_itself(experiments: Experiments, frozen: FrozenTensor, moved: np.ndarray) -> bool:
    """Whether the next value of elements of a tensor follows from their present one, with the same actions.

    That is so for a state, such as a position, and not for a buffer that step() fills from other tensors. A few of the
    elements that move are tried, each in a step of its own, which is undone. If the environment raises, or does not
    step twice alike from the same state, the answer is no.

    Args:
        experiments: The environment and its actor.
        frozen: The tensor.
        moved: Flags for the elements that steps have changed.
    """
    chosen = np.flatnonzero(moved)[:_MOST_ELEMENTS]
    observations = experiments.observations
    try:
        with experiments.trial() as snapshot, torch.no_grad():
            actions = experiments.actor(validated_observations(experiments.env, "observations_reset")).clone()
            values = _Values(experiments, frozen, actions, snapshot)
            first, second = values.after_a_step(None), values.after_a_step(None)
            is_repeatable = np.array_equal(first, second, equal_nan=True)
            return is_repeatable and all(values.after_a_step(index)[index] != first[index] for index in chosen)
    except Exception:
        return False
    finally:
        experiments.observations = observations


@dataclass(frozen=True)
class _Values:
    experiments: Experiments
    frozen: FrozenTensor
    actions: torch.Tensor
    snapshot: Snapshot

    def after_a_step(self, pushed: int | None) -> np.ndarray:
        """The flattened tensor after a step, before which one of its elements is changed."""
        self.snapshot.restore()
        if pushed is not None:
            _push(self.experiments.live(self.frozen), pushed)
        step_environment(self.experiments.env, self.actions.clone())
        array = as_array(self.experiments.live(self.frozen))
        if array is None:
            raise LookupError(self.frozen.name)
        return array.reshape(-1).copy()


def _push(live: Any, index: int) -> None:
    """Change one element of a tensor or array in place, by a small amount."""
    place = tuple(int(item) for item in np.unravel_index(index, tuple(live.shape)))
    value = live[place]
    live[place] = value + 0.25 if str(live.dtype).removeprefix("torch.").startswith("float") else 1 - value
