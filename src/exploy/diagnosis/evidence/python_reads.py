"""Tests whether results depend on a tensor that Python reads: a captured program does not show that."""

from collections.abc import Sequence

import numpy as np
import torch

from exploy.capture.perturbation import disturbed, probes
from exploy.capture.program import FrozenTensor
from exploy.diagnosis.evidence.experiments import Experiments, same_results

_SCALES = (1.0, 1000.0)


def python_read_matters(
    experiments: Experiments, frozen: FrozenTensor, elements: np.ndarray, values: Sequence[np.ndarray]
) -> bool:
    """Whether the results of a policy step change with the values of a tensor, which Python may only print or log.

    Args:
        experiments: The environment and its actor. All changes are undone.
        frozen: The tensor.
        elements: Flags for the elements to change.
        values: Values that the tensor has had.

    Returns:
        True also if it cannot be decided: if the tensor cannot be written, or results differ from run to run.
    """
    with experiments.trial() as snapshot:
        live = experiments.live(frozen)
        if not isinstance(live, torch.Tensor) or tuple(live.shape) != frozen.shape:
            return True
        before = experiments.results_with({}, snapshot)
        again = experiments.results_with({}, snapshot)
        if before is None or again is None or not same_results(before, again):
            return True
        flags = torch.from_numpy(elements).reshape(live.shape).to(live.device)
        for value in _values_to_try(live, values):
            try:
                live.copy_(torch.where(flags, value.to(live), live))
                results = experiments.policy_step()
            except Exception:
                return True
            finally:
                snapshot.restore()
            if not same_results(before, results):
                return True
        return False


def _values_to_try(live: torch.Tensor, values: Sequence[np.ndarray]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    current = live.detach().cpu().clone()
    seen = [torch.from_numpy(value.copy()) for value in values if value.shape == tuple(live.shape)]
    return [*seen, *probes(current), *(disturbed(current, generator, scale) for scale in _SCALES)]
