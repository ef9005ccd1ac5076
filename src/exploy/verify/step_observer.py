"""What happens inside of a step of an environment: seen by its hooks, or by the functions that it calls."""

import contextlib
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import ExployError
from exploy.live.interception import intercepted
from exploy.live.stage_functions import StageFunction
from exploy.verify.hook_registration import register_hooks
from exploy.verify.step_functions import StepFunctions
from exploy.verify.stepped import Values

Look = Callable[[], None]


@dataclass(frozen=True)
class Reading:
    """Inputs and memories of an environment just before observations are computed from them."""

    inputs: Values
    memories: Values


@dataclass
class SubStep:
    """Inputs that one `apply_actions()` reads, and the Outputs and memories after it; None if these are not known.

    `later` has the Outputs and memories when the step goes on after the simulator has moved; None if that is not known,
    or if `outputs` were read at that time.
    """

    number: int
    inputs: Values
    outputs: Values | None = None
    later: Values | None = None


@dataclass(frozen=True)
class Readers:
    """Functions that read the environment: Inputs, registered memories, and all Outputs with memories."""

    inputs: Callable[[], Values]
    memories: Callable[[], Values]
    outputs: Callable[[], Values]

    def reading(self) -> Reading:
        """Inputs and memories, now."""
        return Reading(self.inputs(), self.memories())


class StepObserver:
    """Sees the sub-steps and the computations of observations inside of an environment's steps.

    An environment that calls the hooks of `register_evaluation_hooks()` is seen by these. For one that does not, the
    functions that only `apply_actions()` or only `compute_observations()` calls are watched. The first step without a
    reset decides which of them are relied on: the outermost ones that it calls as often as the decimation says.

    Args:
        env: The environment.
        readers: How to read it.
        look: Called at each hook and each call of such a function.
    """

    def __init__(self, env: ExportableEnvironment, readers: Readers, look: Look):
        self._env = env
        self._readers = readers
        self._look = look
        self._applying: dict[types.CodeType, StageFunction] = {}
        self._observing: dict[types.CodeType, StageFunction] = {}
        self._complete: frozenset[types.CodeType] = frozenset()
        self._is_decided = False
        self._uses_hooks = False
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

        register_hooks(self._env, self._on_update, reset, self._on_sub_step)
        try:
            with intercepted([*self._applying, *self._observing], self._on_entry, self._on_return):
                yield
        finally:
            register_hooks(self._env, _ignore, _ignore, _ignore)

    def begin_step(self) -> None:
        """Forget what was seen before."""
        self.was_reset = False
        self._calls: Counter[types.CodeType] = Counter()
        self._hooked_sub_steps: list[SubStep] = []
        self._seen_sub_steps: dict[types.CodeType, list[SubStep]] = {}
        self.forget_readings()

    def forget_readings(self) -> None:
        """Forget the computations of observations that were seen."""
        self._hooked_readings: list[Reading] = []
        self._seen_readings: dict[types.CodeType, list[Reading]] = {}

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
        if not self._is_decided or len(seen) < decimation:
            return None
        last = seen[-1]
        if was_reset:
            last.later = None
        elif last.outputs is None:
            last.outputs, last.later = last.later or self._readers.outputs(), None
        return seen[:decimation]

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
        applying = [item for item in self._applying.values() if calls[item.code] == item.calls * decimation]
        observing = [item for item in self._observing.values() if _computes(item, calls[item.code])]
        if may_wait and not (applying and observing):
            return
        self._is_decided = True
        whole = [item for item in self._applying.values() if item.does_all and calls[item.code]]
        if whole and calls[whole[0].code] % whole[0].calls == 0:
            self.applied = calls[whole[0].code] // whole[0].calls
        self._applying = {item.code: item for item in applying[:1]}
        self._observing = {item.code: item for item in observing[:1]}

    # -- what the environment calls ----------------------------------------------------------------------------------

    def _on_update(self) -> None:
        self._look()
        self._hooked_readings.append(self._readers.reading())

    def _on_sub_step(self, number: int) -> None:
        self._look()
        self._hooked_sub_steps.append(SubStep(number, self._readers.inputs(), self._readers.outputs()))

    def _on_entry(self, code: types.CodeType) -> None:
        try:
            if code in self._applying and not self._uses_hooks:
                self._enter_apply(self._applying[code])
            elif code in self._observing:
                self._enter_observe(self._observing[code])
        except (ExployError, LookupError):  # called while a component is being replaced, as after a pop()
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
            seen.append(SubStep(len(seen), self._readers.inputs()))
        self._calls[function.code] += 1

    def _enter_observe(self, function: StageFunction) -> None:
        if self._calls[function.code] % function.calls == 0:
            for seen in self._seen_sub_steps.values():
                seen[-1].later = seen[-1].later or self._readers.outputs()
            self._look()
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
