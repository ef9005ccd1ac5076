"""Compares environment and program after a reset: what resets change has to be known."""

import time
from collections.abc import Iterator

import numpy as np
import torch

from exploy.capture.capture import capture
from exploy.capture.program import FrozenTensor, Program
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.discovery.search import Search
from exploy.environment.exportable_environment import has_reset

_SECONDS_TO_WAIT = 5.0  # for a reset, if the environment does not implement reset()
_TOLERANCE = 1e-4
_ADVICE = (
    "# something that a reset changes is not stored in an attribute, or not in a tensor: store it in a tensor of env, "
    "and register that"
)


def differences_after_a_reset(search: Search, within: int) -> Iterator[Finding]:
    """A finding if the program does not compute what the environment does, once a reset has come.

    Tensors that resets are known to change get the values that the program has: questions are about them. All is done
    in a trial.

    Args:
        search: What was found, with the program that it gives.
        within: Number of policy steps to wait for a reset, if the environment does not implement `reset()`.
    """
    program, experiments = search.program, search.experiments
    if program is None or any(item.random for step in program.sources for item in step.values()):
        return
    observations = experiments.observations
    try:
        with experiments.trial():
            if not _reset(experiments, within):
                return
            for frozen in program.frozen:
                if frozen.name in search.movement.by_resets:
                    _put_back(experiments, program, frozen)
            different = [*dict.fromkeys(_differing(program, capture(experiments.env, experiments.actor)))]
            different.sort(key=lambda name: name not in program.observation_outputs)
    except Exception:
        return  # the check has told of what raises
    finally:
        experiments.observations = observations
    if different:
        also = f" ({', '.join(different[1:])} as well)" if different[1:] else ""
        what = f"differs after a reset{also}, although all Inputs and memories have the same values"
        yield Finding.of(FindingKind.UNEXPLAINED, different[0], what, "", _ADVICE)


def _reset(experiments: Experiments, within: int) -> bool:
    if has_reset(experiments.env):
        experiments.env.reset()
        experiments.observations = None
        return True
    end = time.monotonic() + _SECONDS_TO_WAIT
    for _ in range(within):
        if experiments.step():
            return True
        if time.monotonic() > end:
            break
    return False


def _put_back(experiments: Experiments, program: Program, frozen: FrozenTensor) -> None:
    """Give a tensor the values that the program has stored of it."""
    stored = dict(program.module.named_buffers())
    values = [stored[name] for name in frozen.buffers if name in stored and tuple(stored[name].shape) == frozen.shape]
    live = experiments.live(frozen)
    if not values:
        return
    if isinstance(live, torch.Tensor):
        live.copy_(values[0])
    elif isinstance(live, np.ndarray):
        live[...] = values[0].numpy()


def _differing(before: Program, after: Program) -> Iterator[str]:
    """The observations, actions and Outputs that the two compute differently from the inputs that the second has."""
    if before.input_names != after.input_names:
        return
    memories = {memory.output_name for memory in before.memories}
    for one, two in zip(before.run(after.examples), after.run(after.examples), strict=True):
        for name in [name for name in one if name in two and name not in memories]:
            if not torch.allclose(one[name].double(), two[name].double(), _TOLERANCE, _TOLERANCE, equal_nan=True):
                yield name
