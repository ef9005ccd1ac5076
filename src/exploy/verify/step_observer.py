"""What happens inside of a step of an environment: seen by its hooks, or by the functions that it calls."""

import contextlib
import functools
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from exploy.environment.exportable_environment import ExportableEnvironment, Observations
from exploy.environment.observations import step_environment
from exploy.errors import ExployError
from exploy.live.interception import intercepted
from exploy.live.location import call_site
from exploy.live.stage_functions import StageFunction
from exploy.verify.hook_registration import register_hooks
from exploy.verify.output_watch import OutputWatch, Period
from exploy.verify.step_functions import StepFunctions
from exploy.verify.stepped import Values
from exploy.verify.sub_steps import Site, SubStep, simulator_moves_each_time, sites_of_sub_steps

Look = Callable[[], None]


@dataclass(frozen=True)
class Reading:
    """Inputs and memories of an environment just before observations are computed from them."""

    inputs: Values
    memories: Values


@dataclass(frozen=True)
class Readers:
    """Functions that read the environment: Inputs, memories, all Outputs with memories, and Outputs alone."""

    inputs: Callable[[], Values]
    memories: Callable[[], Values]
    outputs: Callable[[], Values]
    outputs_alone: Callable[[], Values]

    def reading(self) -> Reading:
        """Inputs and memories, now."""
        return Reading(self.inputs(), self.memories())


class StepObserver:
    """Sees the sub-steps and the computations of observations inside of an environment's steps.

    An environment that calls the hooks of `register_evaluation_hooks()` is seen by these. For one that does not, the
    functions that only `apply_actions()` or only `compute_observations()` calls are watched. The first step without a
    reset decides which of them are relied on: the outermost ones that it calls as often as the decimation says, from
    one place at least.

    Args:
        env: The environment.
        readers: How to read it.
        look: Called at each hook and each call of such a function.
        follows_sub_steps: Whether sub-steps that hooks announce are read. If not, `sub_steps()` may not be called.

    While `watches_outputs` is set, `step()` also watches the Outputs.
    """

    def __init__(self, env: ExportableEnvironment, readers: Readers, look: Look, follows_sub_steps: bool = True):
        self._env = env
        self._follows_sub_steps = follows_sub_steps
        self._readers = readers
        self._look = look
        self._applying: dict[types.CodeType, StageFunction] = {}
        self._observing: dict[types.CodeType, StageFunction] = {}
        self._complete: frozenset[types.CodeType] = frozenset()
        self._is_decided = False
        self._uses_hooks = False
        self._sites: frozenset[Site] = frozenset()
        self._watch: OutputWatch | None = None
        self._moves_of_a_step = 0
        self.watches_outputs = True
        self.applied: int | None = None
        self.begin_step()

    @contextlib.contextmanager
    def watching(self, functions: StepFunctions, on_reset: Look) -> Iterator[None]:
        """Register hooks and watch functions; both end afterwards.

        Args:
            functions: The functions to watch.
            on_reset: Called when the environment says that it was reset.
        """
        self._applying = {item.code: item for item in functions.apply}
        self._observing = {item.code: item for item in functions.observe}
        self._complete = functions.complete

        def reset() -> None:
            self.was_reset = True
            self.forget_readings()
            on_reset()

        unseen = self._unseen
        on_sub_step = unseen(self._on_sub_step) if self._follows_sub_steps else _ignore
        register_hooks(self._env, unseen(self._on_update), unseen(reset), on_sub_step)
        try:
            watched = [each for item in (*functions.apply, *functions.observe) for each in item.functions]
            with intercepted(watched, unseen(self._on_entry), unseen(self._on_return)):
                yield
        finally:
            register_hooks(self._env, _ignore, _ignore, _ignore)

    def step(self, actions: torch.Tensor) -> tuple[Observations, bool]:
        """Step the environment and return the next observations and whether it says that it was reset.

        Raises:
            InvalidEnvironmentError: If `step()` of the environment returns something else.
        """
        self.begin_step()
        if not self.watches_outputs or self._uses_hooks:
            return step_environment(self._env, actions)
        self._watch = OutputWatch(self._readers.inputs, self._readers.outputs_alone)
        with self._watch:
            result = step_environment(self._env, actions)
        self._watch.finish()
        return result

    def _unseen(self, function: Callable[..., None]) -> Callable[..., None]:
        """The same function, whose torch operators are not those of the step."""

        @functools.wraps(function)
        def unseen(*args: Any) -> None:
            if self._watch is None:
                function(*args)
                return
            with self._watch.paused():
                function(*args)

        return unseen

    def begin_step(self) -> None:
        """Forget what was seen before."""
        self.was_reset = False
        self._watch = None
        self._calls: Counter[types.CodeType] = Counter()
        self._hooked_sub_steps: list[SubStep] = []
        self._seen_sub_steps: dict[types.CodeType, list[SubStep]] = {}
        self.forget_readings()

    def forget_readings(self) -> None:
        """Forget the computations of observations that were seen."""
        self._hooked_readings: list[Reading] = []
        self._seen_readings: dict[types.CodeType, list[Reading]] = {}

    @property
    def is_decided(self) -> bool:
        """Whether a step has shown which functions can be relied on."""
        return self._is_decided

    @property
    def sees_sub_steps(self) -> bool:
        """Whether sub-steps could be seen so far."""
        return self._uses_hooks or (self._is_decided and bool(self._applying))

    @property
    def sees_observations(self) -> bool:
        """Whether computations of observations were seen by the functions that make them, and not by a hook."""
        return not self._hooked_readings and any(self._seen_readings.values())

    def sub_steps(self, decimation: int, was_reset: bool) -> list[SubStep] | None:
        """The sub-steps of the step that has just ended, in order; None where they cannot be seen.

        Args:
            decimation: How many there should be.
            was_reset: Whether the environment was reset in the step, so that Outputs are no longer those of the step.
        """
        self._uses_hooks = self._uses_hooks or bool(self._hooked_sub_steps)
        if not self._is_decided:
            self._decide(decimation, may_wait=was_reset)
        if self._uses_hooks:
            self.applied = len(self._hooked_sub_steps)
            return self._hooked_sub_steps
        seen = next((self._seen_sub_steps[code] for code in self._applying if code in self._seen_sub_steps), [])
        chosen = self._chosen(seen, decimation, was_reset) if self._is_decided else None
        if chosen is None:
            return None
        last = chosen[-1]
        if was_reset:
            last.later = None
            last.outputs = last.outputs if self._complete.issuperset(self._applying) else None
        elif last.outputs is None:
            last.outputs, last.later = last.later or self._readers.outputs(), None
        for number, item in enumerate(chosen):
            item.number = number
            if not was_reset or number < decimation - 1:
                following = chosen[number + 1].first_period if number < decimation - 1 else None
                item.periods = self.periods[item.first_period : following]
        return chosen

    @property
    def periods(self) -> list[Period]:
        """The values that Outputs had in the step that has just ended; empty if they were not watched."""
        return self._watch.periods if self._watch is not None else []

    def moves(self, times: int) -> bool:
        """Whether the simulator was seen to move so many times, in this step or, if none did, in an earlier one."""
        if self._watch is not None and self._watch.has_input_that_changed(times):
            self._moves_of_a_step = times
        return self._moves_of_a_step == times

    def _chosen(self, calls: list[SubStep], decimation: int, was_reset: bool) -> list[SubStep] | None:
        """Those calls of the function that applies actions which are sub-steps; None if that is not known."""
        chosen = [item for item in calls if item.site in self._sites]
        if len(chosen) == decimation:
            return chosen
        if was_reset:
            return calls[:decimation] if len(calls) >= decimation else None
        sites = sites_of_sub_steps(calls, decimation, self._readers.inputs())
        return None if sites is None else [item for item in calls if item.site in sites]

    def readings(self) -> list[Reading]:
        """What each computation of observations has started from, in order, since these were forgotten."""
        seen = (self._seen_readings[code] for code in self._observing if code in self._seen_readings)
        return list(self._hooked_readings or next(seen, []))

    def _decide(self, decimation: int, may_wait: bool) -> None:
        """Choose the outermost functions that the step has called as often as the stages would.

        Args:
            decimation: How often a step should apply actions.
            may_wait: Leave it to a later step if none was called so often.
        """
        calls = self._calls
        inputs = self._readers.inputs()
        sites = {item.code: self._sites_of(item, decimation, inputs) for item in self._applying.values()}
        applying = [item for item in self._applying.values() if sites[item.code] is not None]
        observing = [item for item in self._observing.values() if _computes(item, calls[item.code])]
        if may_wait and not (applying and observing):
            return
        self._is_decided = True
        if applying:
            self._sites = sites[applying[0].code] or frozenset()
        self.applied = decimation if applying else self._count_applied(inputs)
        self._applying = {item.code: item for item in applying[:1]}
        self._observing = {item.code: item for item in observing[:1]}

    def _sites_of(self, function: StageFunction, decimation: int, inputs: Values) -> frozenset[Site] | None:
        """From where the step has called a function for its sub-steps; None if it has not."""
        calls = self._seen_sub_steps.get(function.code, [])
        if self._calls[function.code] == function.calls * decimation:
            return frozenset(item.site for item in calls)
        if function.calls > 1 or len(calls) <= decimation:
            return None
        return sites_of_sub_steps(calls, decimation, inputs)

    def _count_applied(self, inputs: Values) -> int | None:
        """How often the step has applied actions, if the simulator can be seen to move each time."""
        whole = next((item for item in self._applying.values() if item.does_all and self._calls[item.code]), None)
        if whole is None or self._calls[whole.code] % whole.calls:
            return None
        calls = self._seen_sub_steps.get(whole.code, [])
        is_one_loop = len({item.site for item in calls}) == 1
        return len(calls) if is_one_loop or simulator_moves_each_time(calls, inputs) else None

    # -- what the environment calls ----------------------------------------------------------------------------------

    def _on_update(self) -> None:
        self._look()
        self._hooked_readings.append(self._readers.reading())

    def _on_sub_step(self, number: int) -> None:
        self._look()
        self._hooked_sub_steps.append(SubStep(number, self._readers.inputs(), self._readers.outputs()))

    def _on_entry(self, code: types.CodeType) -> None:
        if torch._C._functorch.peek_interpreter_stack() is not None:
            self._forget(code)  # called by vmap() or the like, inside of which no tensor can be read
            return
        try:
            if code in self._applying and not self._uses_hooks:
                self._enter_apply(self._applying[code])
            elif code in self._observing:
                self._enter_observe(self._observing[code])
        except (ExployError, LookupError):  # called while a component is being replaced, as after a pop()
            self._forget(code)

    def _forget(self, code: types.CodeType) -> None:
        for functions, seen in ((self._applying, self._seen_sub_steps), (self._observing, self._seen_readings)):
            functions.pop(code, None)
            seen.pop(code, None)

    def _enter_apply(self, function: StageFunction) -> None:
        if self._calls[function.code] % function.calls == 0:
            seen = self._seen_sub_steps.setdefault(function.code, [])
            if seen and seen[-1].outputs is None:
                seen[-1].outputs = self._readers.outputs()
            elif seen:
                seen[-1].later = self._readers.outputs()
            self._look()
            site = call_site(step_environment.__code__)
            period = self._watch.cut() if self._watch is not None else 0
            seen.append(SubStep(len(seen), self._readers.inputs(), site=site, first_period=period))
        self._calls[function.code] += 1

    def _enter_observe(self, function: StageFunction) -> None:
        if self._calls[function.code] % function.calls == 0:
            for seen in self._seen_sub_steps.values():
                seen[-1].later = seen[-1].later or self._readers.outputs()
            self._look()
            if not self._hooked_readings:  # which are preferred
                self._seen_readings.setdefault(function.code, []).append(self._readers.reading())
        self._calls[function.code] += 1

    def _on_return(self, code: types.CodeType) -> None:
        function = self._applying.get(code)
        if function is None or self._uses_hooks or code not in self._complete:
            return
        seen = self._seen_sub_steps.get(code)
        if seen and self._calls[code] % function.calls == 0:
            seen[-1].outputs = self._readers.outputs()


def _computes(function: StageFunction, calls: int) -> bool:
    """Whether so many calls of a function in a step are computations of observations."""
    return calls == function.calls or (function.does_all and calls > 0 and calls % function.calls == 0)


def _ignore(*_: object) -> None:
    """Stand in for a hook when no evaluation is running."""
