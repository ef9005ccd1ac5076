"""What a trap for `exploy.discover()` is: an environment without registrations, and what is true about it."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal

import torch

from exploy.environment.exportable_environment import ExportableEnvironment

Role = Literal["input", "memory", "constant", "left out"]
Made = tuple[ExportableEnvironment, torch.nn.Module]
TORQUE: Mapping[str, str] = {"torque": "env.torque"}


@dataclass(frozen=True, kw_only=True)
class Trap:
    """An environment that a naive discovery registers wrongly, and what a right registration is.

    Expressions are Python, with `env`, `actor` and `torch`.

    A registration is right if `oracle.differences()` is empty and `coverage.forbidden()` is empty. If it is not, the
    discovery must have named everything in `to_be_said`, in a question or a problem. What makes the file right without
    a word, such as a Connection that empties a cache, is right as well, except where only a user can know: what only
    resets draw.

    Args:
        name: Short, in words, unique.
        why: What a naive discovery would do wrong.
        make: Makes environment and actor, always the same; no component is registered.
        outputs: Expressions of the Output tensors, by name.
        scatter: Puts the environment into another legitimate state: all that the robot measures or is told has new
            values. Caches are left as a simulator step leaves them. Constants are not changed.
        inputs: Tensors that must become Inputs, and that watching can find. An Input that contains one is right, too.
        memories: Tensors that must become Memories. What is made at the policy step and read only at its sub-steps is
            listed only in traps about it.
        to_be_said: What must be named in a question or a problem, because watching cannot tell. Shortest names: a text
            with `env.cache.data` names `env.cache`.
        never_inputs: Tensors that must never become an Input.
        naive: The mistake: roles of expressions, instead of their right ones. The oracle shows it, the export refuses
            it, or `never_inputs` forbids it.
        answers: What a user would answer: roles of expressions, in addition to `inputs` and `memories`.
        remedy: Registers what else a user would register, such as a Connection.
        carried: Those of `memories` that a capture carries by itself, if they are not registered.
        is_set: Whether the environment behaves as `why` says, such as standing still for long.
    """

    name: str
    why: str
    make: Callable[[], Made]
    outputs: Mapping[str, str] = field(default_factory=lambda: dict(TORQUE))
    scatter: Callable[[ExportableEnvironment, torch.Generator], None]
    inputs: frozenset[str] = frozenset()
    memories: frozenset[str] = frozenset()
    to_be_said: frozenset[str] = frozenset()
    never_inputs: frozenset[str] = frozenset()
    naive: Mapping[str, Role] | None = None
    answers: Mapping[str, Role] = field(default_factory=dict)
    remedy: Callable[[ExportableEnvironment, torch.nn.Module], None] | None = None
    carried: frozenset[str] = frozenset()
    is_set: Callable[[ExportableEnvironment, torch.nn.Module], bool] | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def can_be_completed(self) -> bool:
        """Whether a right registration exists, with the answers of a user if they are needed."""
        return not self.to_be_said or bool(self.answers) or self.remedy is not None


def evaluate(expression: str, env: ExportableEnvironment, actor: torch.nn.Module) -> Any:
    """The value of an expression of a trap."""
    return eval(_compiled(expression), {"env": env, "actor": actor, "torch": torch})


@functools.cache
def _compiled(expression: str) -> CodeType:
    return compile(expression, expression, "eval")
