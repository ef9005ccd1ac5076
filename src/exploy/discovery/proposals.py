"""Proposes what a tensor probably is that no step changes."""

import re

import numpy as np
import torch

from exploy.capture.perturbation import disturbed
from exploy.capture.program import FrozenTensor, Program
from exploy.discovery.movement import Movement

_COMMAND = re.compile("command|cmd|goal")
_MOST_ELEMENTS = 64  # that are tried one by one


def likely_answers(
    program: Program, frozen: FrozenTensor, elements: np.ndarray, movement: Movement
) -> dict[str, np.ndarray]:
    """Flags for the elements that are probably an "input", and those that are probably a "constant".

    A command is called so, or is observed as it is: it changes elements of the observations that no step changes. A
    gain or a bias changes only elements that steps change as well, or none. The elements of a large tensor are judged
    together.

    Args:
        program: The program.
        frozen: The tensor.
        elements: Flags for the elements of the flattened tensor to judge; others are in no answer.
        movement: What was seen while the environment moved.
    """
    if _COMMAND.search(frozen.name.lower()):
        return {"input": elements}
    chosen = np.flatnonzero(elements)
    groups = [chosen] if len(chosen) > _MOST_ELEMENTS else [np.array([index]) for index in chosen]
    answers: dict[str, np.ndarray] = {}
    for group in groups:
        flags = answers.setdefault(_likely_answer(program, frozen, group, movement), np.zeros_like(elements))
        flags[group] = True
    return answers


def _likely_answer(program: Program, frozen: FrozenTensor, indices: np.ndarray, movement: Movement) -> str:
    arguments = tuple(program.examples[name] for name in program.input_names)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            before = program.module(*arguments)
            after = torch.func.functional_call(program.module, _changed(program, frozen, indices), arguments)
    except Exception:
        return "constant"
    for name, one, two in zip(program.policy_step_outputs, before, after, strict=False):
        if name not in program.observation_outputs:
            continue
        flags = (one != two).reshape(-1).numpy()
        moved = movement.observations.get(name, np.zeros(flags.size, dtype=bool))
        if (flags & ~moved).any():
            return "input"
    return "constant"


def _changed(program: Program, frozen: FrozenTensor, indices: np.ndarray) -> dict[str, torch.Tensor]:
    """The stored tensors of a frozen tensor, with other values at some elements."""
    stored = dict(program.module.named_buffers())
    generator = torch.Generator().manual_seed(0)
    changed = {}
    for name in frozen.buffers & stored.keys():
        others = disturbed(stored[name], generator)
        if tuple(others.shape) == frozen.shape:
            kept, places = stored[name].clone().reshape(-1), torch.as_tensor(indices)
            kept[places] = others.reshape(-1)[places]
            others = kept.reshape(frozen.shape)
        changed[name] = others
    return changed
