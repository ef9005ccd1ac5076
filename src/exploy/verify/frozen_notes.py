"""Reports frozen tensors that changed during an evaluation."""

from rich.console import Console
from rich.markup import escape

from exploy.contract import Frozen
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.verify.frozen_watch import FrozenWatch
from exploy.verify.session_wrapper import SessionWrapper


class FrozenNotes:
    """Notes at each step which tensors differ from the value in the file.

    Args:
        env: The environment.
        session: The file, with the actor if known.
    """

    def __init__(self, env: ExportableEnvironment, session: SessionWrapper):
        self._frozen: tuple[Frozen, ...] = session.contract.frozen if session.contract is not None else ()
        self._watch = FrozenWatch(env, session.get_actor(), self._frozen)
        self.changed: dict[str, int] = {}

    def __call__(self, step: int) -> None:
        """Check every tensor that has not changed yet."""
        for change in self._watch.changes(lambda frozen: frozen.name not in self.changed):
            self.changed[change.frozen.name] = step

    def print(self, console: Console, agrees: bool) -> None:
        """Print a line for each tensor that has changed.

        Args:
            console: Where to print.
            agrees: Whether the file agreed with the environment anyway.
        """
        for frozen in self._frozen:
            step = self.changed.get(frozen.name)
            if step is None or (frozen.declared is not None and agrees):
                continue
            console.print(
                f"{escape(frozen.name)} is frozen in the file, but changed in the environment at step {step}: "
                f"{escape(_advice(frozen, agrees))}.",
                soft_wrap=True,
            )


def _advice(frozen: Frozen, agrees: bool) -> str:
    if frozen.declared is not None:
        return f"it was declared as the constant {frozen.declared}"
    if agrees:
        return "no output differs yet; register it as an Input or Memory, or declare it with add_constant()"
    return "register it as an Input or Memory"
