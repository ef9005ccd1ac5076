"""Reports frozen tensors that changed during an evaluation."""

import numpy as np
from rich.console import Console

from exploy.contract import Frozen
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.text import for_rich
from exploy.verify.buffer_notes import BufferNotes
from exploy.verify.frozen_influence import changes_without_influence
from exploy.verify.frozen_watch import FrozenWatch
from exploy.verify.session_wrapper import SessionWrapper


class FrozenNotes:
    """Notes at each step which tensors differ from the value in the file.

    Args:
        env: The environment.
        session: The file, with the actor if known.
    """

    def __init__(self, env: ExportableEnvironment, session: SessionWrapper):
        frozen = session.contract.frozen if session.contract is not None else ()
        self._env = env
        self._actor = session.get_actor()
        self._watched = [_Watched(item) for item in frozen]
        self._watch = FrozenWatch(env, self._actor, self._watched)
        self._buffers = BufferNotes(env, self._actor)

    def __call__(self, step: int) -> None:
        """Check every tensor that has elements which have not changed yet."""
        for change in self._watch.changes(lambda item: not item.has_changed_everywhere):
            change.frozen.note(step, change.elements)
        self._buffers(step)

    def print(self, console: Console, agrees: bool, is_running: bool = False) -> None:
        """Print a line for each tensor that has changed, except for changes that do not matter to a file that agrees.

        Args:
            console: Where to print.
            agrees: Whether the file agreed with the environment anyway.
            is_running: Whether the evaluation is still running. Then no advice is given, since it cannot be found out
                yet whether outputs depend on the tensors.
        """
        noted = [item for item in self._watched if item.first_step is not None]
        irrelevant = set() if is_running else self._irrelevant(noted)
        for item in noted:
            if agrees and (item.frozen.declared is not None or item.name in irrelevant):
                continue
            advice = "" if is_running else f": {_advice(item.frozen, agrees, item.name in irrelevant)}"
            console.print(
                f"{for_rich(item.name)} is frozen in the file, but changed in the environment at step {item.first_step}"
                f"{for_rich(advice)}.",
                soft_wrap=True,
            )

        for name, step in () if agrees else self._buffers.first_steps.items():
            advice = "" if is_running else ": register it as a Memory or Input, or do not change it"
            console.print(
                f"{for_rich(name)} is stored in the file like a weight, but changed at step {step}{advice}.",
                soft_wrap=True,
            )

    def _irrelevant(self, noted: list["_Watched"]) -> set[str]:
        changed = {item.name: item.changed for item in noted if item.frozen.declared is None}
        return changes_without_influence(self._env, self._actor, changed)


class _Watched:
    """A frozen tensor of a file, and its elements that have changed so far.

    The file has only a hash of the value. So changes are found by comparing with the value at the first look. If that
    is not the value in the file, all elements may have changed.
    """

    def __init__(self, frozen: Frozen):
        self.frozen = frozen
        self.first_step: int | None = None
        self.changed = np.zeros(int(np.prod(frozen.shape)), dtype=bool)
        self._positions = slice(None) if frozen.elements is None else np.array(frozen.elements, dtype=int)
        self._stored: np.ndarray | None = None

    @property
    def name(self) -> str:
        """The attribute path of the tensor."""
        return self.frozen.name

    @property
    def has_changed_everywhere(self) -> bool:
        """Whether each frozen element has changed."""
        return self.first_step is not None and bool(self.changed[self._positions].all())

    def changed_elements(self, now: np.ndarray) -> np.ndarray | None:
        """Flags for the frozen elements whose value has changed; None if no element has changed."""
        if self._stored is None or now.shape != self._stored.shape or now.dtype != self._stored.dtype:
            flags = self.frozen.changed_elements(now)
            if flags is None:
                self._stored = now.copy()
            return flags
        differs = (now != self._stored) & ((now == now) | (self._stored == self._stored))  # equal NaNs are equal
        flags = np.zeros_like(self.changed)
        flags[self._positions] = differs.reshape(-1)[self._positions]
        return flags if flags.any() else None

    def note(self, step: int, elements: np.ndarray) -> None:
        """Note that elements have changed at a step."""
        self.first_step = step if self.first_step is None else self.first_step
        self.changed |= elements


def _advice(frozen: Frozen, agrees: bool, is_irrelevant: bool) -> str:
    if frozen.declared is not None:
        return f"it was declared as the constant {frozen.declared}"
    if is_irrelevant:
        return "no output depends on it"
    if agrees:
        return "no output differs yet; register it as an Input or Memory, or declare it with add_constant()"
    return "register it as an Input or Memory"
