"""Evaluation of exported files against the environment that they were made from."""

import sys
from collections.abc import Callable

import torch
from rich.console import Console
from rich.progress import Progress

from exploy.environment.context_manager import ContextManager
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import InvalidEnvironmentError
from exploy.live.evaluation_mode import evaluation_mode
from exploy.verify.closed_loop import ClosedLoop, has_terminal
from exploy.verify.frozen_notes import FrozenNotes
from exploy.verify.session_wrapper import SessionWrapper
from exploy.verify.tally import Tally

_WIDTH_WITHOUT_TERMINAL = 140


def evaluate(
    env: ExportableEnvironment,
    context_manager: ContextManager,
    session_wrapper: SessionWrapper,
    num_steps: int,
    verbose: bool = True,
    reset_from_onnx_counter_steps: int | None = 50,
    atol: float = 1e-05,
    rtol: float = 1e-05,
    pause_on_failure: bool = True,
) -> tuple[bool, torch.Tensor]:
    """Step environment and file side by side, and compare observations, actions, outputs and memories.

    The memory outputs of the file are fed back to its memory inputs. An environment that calls the hooks given to
    `register_evaluation_hooks()` is compared at every sub-step. Without these calls it is compared at the policy rate,
    and outputs that read new inputs at sub-steps are listed as not compared. After a reset, the memories are copied
    from the environment. The environment is stepped, but its tensors are not written.

    Args:
        env: The environment to run.
        context_manager: Its components.
        session_wrapper: The file. If it has no actor, the environment is stepped with the actions of the file.
        num_steps: Number of policy steps; 1 or more.
        verbose: Print progress and a table. A failed evaluation always prints its table.
        reset_from_onnx_counter_steps: Number of steps after which the memories are copied from the environment,
            so that rounding errors do not add up; 0 or None for never.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        pause_on_failure: Wait for Enter after the first step that differs, if there is a terminal.

    Returns:
        Whether everything that was compared agrees (False if nothing was compared), and the last observations.

    Raises:
        InvalidEnvironmentError: If the number of steps is not positive.
        FileFormatError: If the file does not belong to the environment.
    """
    _require_positive_counts(num_steps, reset_from_onnx_counter_steps)
    actor = session_wrapper.get_actor()
    tally = Tally(atol, rtol)
    watch = FrozenNotes(env, session_wrapper)
    loop = ClosedLoop(env, context_manager, session_wrapper, actor, tally, reset_from_onnx_counter_steps or 0, watch)
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH_WITHOUT_TERMINAL)
    modules = [*context_manager.modules, *([actor] if actor is not None else [])]
    with Progress(console=console, transient=True, disable=not (verbose and console.is_terminal)) as progress:
        task = progress.add_task("evaluating", total=num_steps)
        pause = _pause(tally, watch, progress) if pause_on_failure and has_terminal() else None

        def after_step(step: int) -> None:
            progress.update(task, completed=step + 1)
            if pause is not None:
                pause(step)

        with evaluation_mode(modules):
            observations = loop.run(num_steps, after_step)
    if verbose or not tally.ok:
        watch.print(console, tally.ok)
        tally.print(console, num_steps)
    return tally.ok, observations


def _require_positive_counts(num_steps: int, reseed_every: int | None) -> None:
    if num_steps < 1:
        raise InvalidEnvironmentError(f"evaluate() needs num_steps of 1 or more, got {num_steps}.")
    if reseed_every is not None and reseed_every < 0:
        raise InvalidEnvironmentError(
            f"reset_from_onnx_counter_steps must be positive, or 0 or None for never; got {reseed_every}."
        )


def _pause(tally: Tally, watch: FrozenNotes, progress: Progress) -> Callable[[int], None]:
    """Return a function that waits for Enter at the first difference."""
    asked = False

    def pause(step: int) -> None:
        nonlocal asked
        if tally.mismatches and not asked:
            asked = True
            progress.stop()
            watch.print(progress.console, agrees=False)
            tally.print(progress.console, step + 1)
            input("Press Enter to continue.")
            progress.start()

    return pause
