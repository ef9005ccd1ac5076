"""Watches the tensors that a file keeps as constants while the environment moves on."""

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape

from exploy.contract import Contract, Frozen
from exploy.environment.components import to_numpy
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.live.object_graph import resolve_in
from exploy.live.roots import live_objects
from exploy.verify.session_wrapper import SessionWrapper


class FrozenWatch:
    """Notes, step by step, which frozen tensors are no longer what the file keeps.

    Each is looked up anew by its path, since environments replace tensors and the objects that hold them.

    Args:
        env: The environment.
        session: The file, with the actor where it is known.
    """

    def __init__(self, env: ExportableEnvironment, session: SessionWrapper):
        self._env = env
        self._actor = session.get_actor() or torch.nn.Module()
        contract: Contract | None = session.contract
        self._frozen = contract.frozen if contract is not None else ()
        self.changed: dict[str, int] = {}

    def __call__(self, step: int) -> None:
        """Look at every tensor that has not changed yet."""
        roots = live_objects(self._env, self._actor)
        for frozen in self._frozen:
            if frozen.name not in self.changed and _has_changed(frozen, resolve_in(roots, frozen.name)):
                self.changed[frozen.name] = step

    def print(self, console: Console, agrees: bool) -> None:
        """Print a line for each tensor that has changed.

        Args:
            console: Where to print.
            agrees: Whether the file agreed with the environment all the same.
        """
        for frozen in self._frozen:
            step = self.changed.get(frozen.name)
            if step is None or (frozen.declared is not None and agrees):
                continue
            if frozen.declared is not None:
                advice = f"it was declared as the constant {frozen.declared}"
            elif agrees:
                advice = (
                    "no output has shown it yet; register it as an Input or Memory, or declare it with add_constant()"
                )
            else:
                advice = "register it as an Input or Memory"
            console.print(
                f"{escape(frozen.name)} is frozen in the file, but changed in the environment at step {step}: "
                f"{escape(advice)}.",
                soft_wrap=True,
            )


def _has_changed(frozen: Frozen, live: object) -> bool:
    value = to_numpy(live) if isinstance(live, torch.Tensor) else live
    return isinstance(value, np.ndarray) and not frozen.matches(value)
