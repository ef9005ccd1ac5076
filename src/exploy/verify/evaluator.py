"""Evaluation of exported files against the environment that they were made from."""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress

from exploy.contract import Contract
from exploy.environment.context_manager import ContextManager
from exploy.environment.exportable_environment import ExportableEnvironment, Observations
from exploy.errors import InvalidEnvironmentError
from exploy.live.evaluation_mode import evaluation_mode
from exploy.verify.closed_loop import ClosedLoop, RunLength, has_terminal
from exploy.verify.frozen_notes import FrozenNotes
from exploy.verify.session_wrapper import SessionWrapper
from exploy.verify.tally import Tally
from exploy.verify.trusted_substitutes import trusted_substitutes

_WIDTH_WITHOUT_TERMINAL = 140
_ROUNDINGS = 10


def evaluate(
    env: ExportableEnvironment,
    context_manager: ContextManager,
    session_wrapper: SessionWrapper,
    num_steps: int | None = None,
    verbose: bool = True,
    reset_from_onnx_counter_steps: int | None = 50,
    atol: float = 1e-05,
    rtol: float = 1e-05,
    pause_on_failure: bool = True,
    *,
    num_episodes: int | None = None,
    max_episode_steps: int | None = None,
    allow_uncompared: Collection[str] = (),
) -> tuple[bool, Observations]:
    """Step environment and file side by side, and compare observations, actions, outputs and memories.

    Everything is compared at every rate at which the file computes it. Sub-steps are seen by the hooks given to
    `register_evaluation_hooks()`, or else by the functions that `step()` and `apply_actions()` share. What cannot be
    seen counts as not compared, and the result is False.

    The memory outputs of the file are fed back to its memory inputs. The run begins with the memories of the
    environment. After each reset in the run, the file starts from its stored values, as on the robot. An error beyond
    the tolerance passes if rounding explains it: if it is a small multiple of the effect of disturbing the inputs and
    memories by one unit in the last place. The environment is stepped, but its tensors are not written.

    Args:
        env: The environment to run.
        context_manager: Its components.
        session_wrapper: The file. If it has no actor, the environment is stepped with the actions of the file.
        num_steps: Number of policy steps; 1 or more. Not needed if `num_episodes` is given.
        verbose: Print progress and a table. A failed evaluation always prints its table.
        reset_from_onnx_counter_steps: Number of steps after which the memories are copied from the environment,
            so that rounding errors do not add up; 0 or None for never.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        pause_on_failure: Wait for Enter after the first step that differs, if there is a terminal.
        num_episodes: Number of episodes after which the run ends.
        max_episode_steps: Number of policy steps after which an episode ends if the environment was not reset before;
            the environment is then reset if it implements `reset()`. Needed with `num_episodes` unless `num_steps` is
            given.
        allow_uncompared: Outputs that need not be compared, such as those that random numbers reach.

    Returns:
        Whether the file agrees: True if everything was compared and nothing differs. And the last observations.

    Raises:
        InvalidEnvironmentError: If a number of steps or episodes is missing, or not a positive integer.
        FileFormatError: If the file does not belong to the environment.
        SubstituteError: If a substitute does not do what its original does.
    """
    length = _validated_length(num_steps, num_episodes, max_episode_steps)
    _require_not_negative(reset_from_onnx_counter_steps)
    result = run_evaluation(
        env,
        context_manager,
        session_wrapper,
        length,
        verbose=verbose,
        reseed_every=reset_from_onnx_counter_steps or 0,
        atol=atol,
        rtol=rtol,
        pause_on_failure=pause_on_failure,
        allow_uncompared=allow_uncompared,
    )
    return result.tally.ok, result.observations


@dataclass(frozen=True)
class Evaluation:
    """The comparisons of an evaluation, the last observations, and how many policy steps were made."""

    tally: Tally
    observations: Observations
    steps: int


def run_evaluation(
    env: ExportableEnvironment,
    context_manager: ContextManager,
    session_wrapper: SessionWrapper,
    length: RunLength,
    *,
    verbose: bool,
    reseed_every: int,
    atol: float,
    rtol: float,
    pause_on_failure: bool,
    allow_uncompared: Collection[str],
) -> Evaluation:
    """Evaluate a file and return all comparisons; see `evaluate()`.

    Raises:
        SubstituteError: If a substitute does not do what its original does.
    """
    actor = session_wrapper.get_actor()
    modules = [*context_manager.modules, *([actor] if actor is not None else [])]
    contract = session_wrapper.contract
    coarse = _coarse_outputs(contract)
    found = [_coarse_rtol(modules, rtol), *(_ROUNDINGS * epsilon for epsilon in coarse.values())]
    coarse_rtol = max((item for item in found if item is not None), default=None)
    observes_coarsely = contract is not None and any(name in coarse for name in contract.observation_outputs)
    tally = Tally(atol, rtol, coarse_rtol=coarse_rtol, allow_uncompared=allow_uncompared)
    watch = FrozenNotes(env, session_wrapper)
    loop = ClosedLoop(
        env,
        context_manager,
        session_wrapper,
        actor,
        tally,
        reseed_every,
        watch,
        only_actor_is_coarse=coarse_rtol is not None and not observes_coarsely,
    )
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH_WITHOUT_TERMINAL)
    with evaluation_mode(modules), trusted_substitutes(env, actor, with_reset=False):
        with Progress(console=console, transient=True, disable=not (verbose and console.is_terminal)) as progress:
            task = progress.add_task("evaluating", total=length.steps)
            pause = _pause(tally, watch, progress) if pause_on_failure and has_terminal() else None

            def after_step(step: int) -> None:
                progress.update(task, completed=step + 1)
                if pause is not None:
                    pause(step)

            observations = loop.run(length, after_step)
        if verbose or not tally.ok:
            watch.print(console, tally.ok)
            tally.print(console, loop.steps)
    return Evaluation(tally, observations, loop.steps)


def _validated_length(num_steps: int | None, num_episodes: int | None, max_episode_steps: int | None) -> RunLength:
    given = {"num_steps": num_steps, "num_episodes": num_episodes, "max_episode_steps": max_episode_steps}
    for name, number in given.items():
        if number is not None and not (number >= 1 and number % 1 == 0):
            raise InvalidEnvironmentError(f"evaluate() needs {name} of 1 or more, an integer; got {number}.")
    if num_steps is not None:
        return RunLength(num_steps, num_episodes, max_episode_steps)
    if num_episodes is None or max_episode_steps is None:
        raise InvalidEnvironmentError("evaluate() needs num_steps, or num_episodes and max_episode_steps.")
    return RunLength(num_episodes * max_episode_steps, num_episodes, max_episode_steps)


def _require_not_negative(reseed_every: int | None) -> None:
    if reseed_every is not None and reseed_every < 0:
        raise InvalidEnvironmentError(
            f"reset_from_onnx_counter_steps must be positive, or 0 or None for never; got {reseed_every}."
        )


def _coarse_outputs(contract: Contract | None) -> Mapping[str, float]:
    """The outputs that are computed in types coarser than float32, unless ports have such a type themselves."""
    if contract is None or any(port.dtype == "float16" for port in (*contract.inputs, *contract.outputs)):
        return {}
    return contract.coarse_outputs or {}


def _coarse_rtol(modules: Iterable[torch.nn.Module], rtol: float) -> float | None:
    """The relative tolerance of what modules compute that are coarser than float32; None if there are none."""
    tensors = [tensor for module in modules for tensor in (*module.parameters(), *module.buffers())]
    precision = max((torch.finfo(item.dtype).eps for item in tensors if item.is_floating_point()), default=0.0)
    return max(rtol, _ROUNDINGS * precision) if precision > float(np.finfo(np.float32).eps) else None


def _pause(tally: Tally, watch: FrozenNotes, progress: Progress) -> Callable[[int], None]:
    """Return a function that waits for Enter at the first difference."""
    asked = False

    def pause(step: int) -> None:
        nonlocal asked
        if tally.mismatches and not asked:
            asked = True
            progress.stop()
            watch.print(progress.console, agrees=False, is_running=True)
            tally.print(progress.console, step + 1)
            input("Press Enter to continue.")
            progress.start()

    return pause
