"""Steps an environment and its exported file side by side and compares everything that the file computes."""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from exploy.capture.program import ACTIONS, OBSERVATIONS
from exploy.comparison import difference
from exploy.contract import STEP_COUNT, Contract
from exploy.environment.actor import ExportableActor
from exploy.environment.context_manager import ContextManager
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import FileFormatError
from exploy.live.gradient_mode import gradient_mode_of
from exploy.verify.environment_reader import EnvironmentReader
from exploy.verify.episode_starts import UNSEEN_OBSERVATIONS, EpisodeStarts
from exploy.verify.fed_back_file import FedBackFile
from exploy.verify.output_watch import different, values_at_moves, values_of
from exploy.verify.reading_choice import reading_of, with_later_memories
from exploy.verify.step_functions import StepFunctions, find_step_functions
from exploy.verify.step_observer import Reading, StepObserver
from exploy.verify.stepped import Stepped, Values, changed_names, same_array
from exploy.verify.sub_steps import SubStep
from exploy.verify.tally import Tally

UNSEEN_SUB_STEPS = "sub-steps cannot be seen: step() neither calls the hooks nor shares a function with apply_actions()"
UNSEEN_OUTPUTS = (
    "step() changes it after the function that it shares with apply_actions() has returned, so that it is not known "
    "what the simulator got"
)
RANDOM = "depends on random numbers"


@dataclass(frozen=True)
class RunLength:
    """How long a run is: a number of policy steps, or a number of episodes with at most so many steps each."""

    steps: int
    episodes: int | None = None
    max_episode_steps: int | None = None


class ClosedLoop:
    """One evaluation of a file against an environment.

    The file starts from the environment's memories. From the first reset in the run on, it starts from its stored
    values after each reset.

    Args:
        env: The environment, which is stepped.
        manager: The components to compare.
        stepped: The file, or what else is compared with the environment.
        actor: The actor that steps the environment; None if the actions of the file are to do that.
        tally: Where comparisons are counted.
        reseed_every: After how many steps memories are taken from the environment; 0 for never.
        watch: Called with the number of the step before each policy step and after the last.
        watch_closely: Call it inside of steps as well.
        starts_stored: After a reset, start from the stored values; if False, from those of the environment.
        on_run: Called with the step count and the values of the inputs and memories before each run of the file.
        only_actor_is_coarse: The actor computes more coarsely than the environment does.

    `steps` are the policy steps that were made; `sub_steps` has how often each
    policy step without a reset applied actions, where that could be seen.

    Raises:
        FileFormatError: If the file was not made by exploy, or from an environment with other ports.
    """

    def __init__(
        self,
        env: ExportableEnvironment,
        manager: ContextManager,
        stepped: Stepped,
        actor: ExportableActor | None,
        tally: Tally,
        reseed_every: int,
        watch: Callable[[int], None],
        watch_closely: bool = False,
        starts_stored: bool = True,
        on_run: Callable[[int, Values], None] = lambda step_count, values: None,
        only_actor_is_coarse: bool = False,
    ):
        self._env = env
        self._manager = manager
        self._actor = actor
        self._contract = _contract_for(stepped, manager)
        self._tally = tally
        self._reseed_every = reseed_every
        self._watch = watch
        self._watch_closely = watch_closely
        self._only_actor_is_coarse = only_actor_is_coarse
        self._registered = {m.input: m for m in self._contract.memories if not m.carried}
        self._file = FedBackFile(stepped, self._contract, on_run)
        self._reader = EnvironmentReader(manager, self._file.start)
        self._observer = StepObserver(env, self._reader.readers, self._look_closely)
        self._starts = EpisodeStarts(
            env, actor, self._file, self._contract, self._reader, self._observer, tally, starts_stored
        )
        self.steps = 0
        self.sub_steps: list[int] = []
        self._expect_comparisons()

    @property
    def resets(self) -> int:
        """The number of resets of the run."""
        return self._starts.resets

    @property
    def sees_sub_steps(self) -> bool:
        """Whether the sub-steps of the environment could be seen."""
        return self._observer.sees_sub_steps

    def run(
        self, length: RunLength, after_step: Callable[[int], None], functions: StepFunctions | None = None
    ) -> torch.Tensor:
        """Evaluate over some policy steps and return the last observations.

        Args:
            length: How many policy steps or episodes to make.
            after_step: Called with the number of each step that is done.
            functions: The functions by which the environment steps; found here if None.
        """
        watched = functions or find_step_functions(self._env, self._actor)
        with self._observer.watching(watched, self._starts.reset_actor), gradient_mode_of(self._manager):
            return self._run(length, after_step)

    def _run(self, length: RunLength, after_step: Callable[[int], None]) -> torch.Tensor:
        observations, reading = self._starts.begin_run()
        episodes, since_reset = 0, 0
        while self.steps < length.steps and episodes != length.episodes:
            self._watch(self.steps)
            if self.steps and self._reseed_every and self.steps % self._reseed_every == 0:
                self._file.set_memories(reading.memories)
            observations, reading, was_reset = self._policy_step(observations, reading)
            after_step(self.steps)
            self.steps += 1
            since_reset = 0 if was_reset else since_reset + 1
            if since_reset == length.max_episode_steps and not was_reset:
                observations, reading = self._starts.reset(self.steps) or (observations, reading)
                was_reset, since_reset = True, 0
            episodes += was_reset
        self._watch(self.steps)
        return observations

    def _expect_comparisons(self) -> None:
        tally, contract = self._tally, self._contract
        tally.element_names[OBSERVATIONS] = contract.observation_names
        tally.expected[OBSERVATIONS] = range(1)
        if self._actor is not None:
            tally.expected[ACTIONS] = range(1)
        for name in self._manager.get_output_names():
            tally.expected[name] = range(contract.decimation if name in contract.sub_step_inputs else 1)
        for name in contract.random_outputs:
            if name in tally.expected:
                tally.not_compared[name] = RANDOM

    def _look_closely(self) -> None:
        if self._watch_closely:
            self._watch(self.steps)

    # -- one policy step --------------------------------------------------------------------------------------------

    def _policy_step(self, observations: torch.Tensor, reading: Reading) -> tuple[torch.Tensor, Reading, bool]:
        if self._only_actor_is_coarse and reading.memories.keys() >= self._registered.keys():
            self._compare_finely(observations, reading)
        self._file.run(0, reading.inputs)
        self._compare(OBSERVATIONS, to_numpy(observations), 0)
        actions = self._act(observations)
        was_decided, later = self._observer.is_decided, []
        observations, done = self._observer.step(actions)
        was_reset = done or self._observer.was_reset
        sub_steps = self._observer.sub_steps(self._contract.decimation, was_reset)
        reading = reading if was_reset else self._reading_after_step(observations)
        if sub_steps is None:
            seen = self._catch_up(None if was_reset else reading)
        else:
            later = self._follow(sub_steps, is_first=self._observer.is_decided and not was_decided)
            numbers = {item.number for item in sub_steps}
            seen = dict.fromkeys(self._manager.get_output_names(), numbers)
        if was_reset:
            return *self._starts.follow_reset(self.steps), True
        self._note_unseen(seen)
        self._count_sub_steps(seen)
        self._compare_memories(reading, is_followed=sub_steps is not None)
        for name, number in later:
            memory = next(item for item in self._registered.values() if item.output == name)
            self._compare(name, reading.memories[memory.input], number, self._file.memories[memory.input])
        return observations, reading, False

    def _count_sub_steps(self, seen: Mapping[str, Collection[int]]) -> None:
        """Note how often the step has applied actions.

        A step may apply targets once that the simulator keeps while it moves as often as the decimation says.
        """
        applied, decimation = self._observer.applied, self._contract.decimation
        if applied is None:
            return
        is_kept = applied == 1 and all(len(seen.get(name, ())) == decimation for name in self._reader.outputs_alone())
        self.sub_steps.append(decimation if is_kept and self._observer.moves >= decimation else applied)

    def _compare_finely(self, observations: torch.Tensor, reading: Reading) -> None:
        """Compare the observations that the file computes from the environment's memories, which are not coarse."""
        if OBSERVATIONS in self._contract.random_outputs:
            return
        got = self._file.try_policy_step(reading.memories | reading.inputs)[OBSERVATIONS]
        moment = "from the memories of the environment"
        self._tally.compare(OBSERVATIONS, to_numpy(observations), got, self.steps, 0, moment=moment, is_coarse=False)

    def _act(self, observations: torch.Tensor) -> torch.Tensor:
        if self._actor is None:
            self._tally.not_compared[ACTIONS] = "the session has no actor"
            return torch.from_numpy(self._file.results[ACTIONS].copy()).to(self._env.empty_actions().device)
        actions: torch.Tensor = self._actor(observations)
        self._compare(ACTIONS, to_numpy(actions), 0)
        return actions

    def _follow(self, sub_steps: list[SubStep], is_first: bool) -> list[tuple[str, int]]:
        """Run the file through the sub-steps that were seen, and compare each.

        A memory that differs there is left to the comparison after the step: step() may write it later than
        process_actions() does, if nothing reads it in between.

        Args:
            sub_steps: The sub-steps.
            is_first: Whether it is the first time that sub-steps are seen. If Outputs keep their values then, they need
                not be watched any more.

        Returns:
            The memories that are to be compared after the step, and the sub-steps at which they differed.
        """
        later: list[tuple[str, int]] = []
        memories = {memory.output for memory in self._registered.values()}
        self._observer.watches_outputs &= not is_first
        windows = [item.periods for item in sub_steps]
        for sub_step in sub_steps:
            if sub_step.number > 0:
                self._file.run(sub_step.number, sub_step.inputs)
            for name, value in (sub_step.outputs or {}).items():
                if name in memories and not self._agrees(name, value):
                    later.append((name, sub_step.number))
                    continue
                if name not in self._reader.kept_outputs:
                    self._compare(name, value, sub_step.number)
                    continue
                after = value if sub_step.later is None else sub_step.later[name]
                got = values_at_moves(windows, sub_step.number, name) or different([value, after])
                self._compare_output(name, value, got, sub_step.number)
                if len(different([value, after, *got])) > 1:
                    self._observer.watches_outputs = True
        return later

    def _compare_output(self, name: str, value: np.ndarray, got: list[np.ndarray], sub_step: int) -> None:
        """Compare an Output with what the simulator got, if that is known.

        Args:
            name: The Output.
            value: Its value after the function that applies actions.
            got: The values that the simulator may have got.
            sub_step: The number of the sub-step.
        """
        if len(got) == 1:
            self._compare(name, got[0], sub_step)
            return
        self._compare(name, next((item for item in got if self._agrees(name, item)), value), sub_step)
        self._tally.unseen.setdefault(name, f"at step {self.steps}: {UNSEEN_OUTPUTS}")

    def _agrees(self, name: str, value: np.ndarray) -> bool:
        return difference(value, self._file.results[name], self._tally.atol, self._tally.rtol) is None

    def _note_unseen(self, seen: Mapping[str, Collection[int]]) -> None:
        """Note what could not be compared in a step without a reset, even if other steps show it.

        Args:
            seen: The sub-steps at which each Output was seen.
        """
        for name in self._manager.get_output_names():
            missing = set(self._tally.expected[name]) - set(seen.get(name, ()))
            if missing and name not in self._contract.random_outputs:
                self._tally.unseen.setdefault(name, f"at step {self.steps}: {UNSEEN_SUB_STEPS}")

    def _catch_up(self, reading: Reading | None) -> dict[str, set[int]]:
        """Run the file through sub-steps that were not seen, and compare what can be known all the same.

        An Output that does not depend on Inputs there is compared at all of them, if it was seen to keep its value
        while the simulator moved. If all Outputs are, memories are compared with their values after the step.

        Args:
            reading: Inputs and memories after the step; None after a reset.

        Returns:
            The sub-steps at which each Output and memory was compared.
        """
        results = self._results_without_new_inputs()
        last = len(results) - 1
        held = {} if reading is None else self._held_outputs()
        self._observer.watches_outputs = reading is None or any(self._is_worth_watching(name) for name in held)
        values = {} if reading is None else self._values_after_step(reading)
        is_whole = held.keys() == self._reader.outputs_alone().keys()
        compared: dict[str, set[int]] = {}
        for name in self._manager.get_output_names():
            reason = None if name in held else self._reason_not_to_compare(name, values)
            if reason is not None:
                self._tally.not_compared.setdefault(name, reason)
            elif name in held or name in values:
                numbers = [last] if name not in held and not is_whole else self._same_as_last(name, results)
                for number in numbers:
                    self._compare(name, held.get(name, values[name]), number, results[number][name])
                compared[name] = set(numbers)
            if last:
                self._tally.not_compared.setdefault(name, UNSEEN_SUB_STEPS)
        return compared

    def _results_without_new_inputs(self) -> list[Values]:
        """What the file gives at each sub-step if Inputs do not change."""
        inputs = self._reader.inputs()
        results = [self._file.results]
        for number in range(1, self._contract.decimation):
            self._file.run(number, inputs)
            results.append(self._file.results)
        return results

    def _held_outputs(self) -> Values:
        """The Outputs that had one value only while the simulator moved, and that do not depend on Inputs meanwhile."""
        periods = self._observer.periods
        names = [name for name in self._reader.outputs_alone() if not self._depends_on_unseen(name)]
        found = {name: values_at_moves([periods], 0, name) for name in names} if periods else {}
        return {name: values[0] for name, values in found.items() if len(values) == 1}

    def _is_worth_watching(self, output: str) -> bool:
        """Whether an Output must be watched to be known: not if it can be read after the step."""
        return self._contract.decimation > 1 or len(values_of(self._observer.periods, output)) > 2

    def _values_after_step(self, reading: Reading) -> Values:
        """Outputs and memories after the step; memories that the computation of observations writes, before it."""
        values = self._reader.outputs()
        for name, memory in self._registered.items():
            if memory.written_by_observations:
                values.pop(memory.output)
                values |= {memory.output: reading.memories[name]} if name in reading.memories else {}
        return values

    def _same_as_last(self, name: str, results: list[Values]) -> list[int]:
        """The sub-steps after which an output has the value that it has after the last; all for an Output."""
        is_memory = any(memory.output == name for memory in self._registered.values())
        pairs = enumerate(results)
        return [number for number, item in pairs if not is_memory or same_array(item[name], results[-1][name])]

    def _depends_on_unseen(self, output: str) -> bool:
        """Whether an output depends on Inputs that only sub-steps would show."""
        return self._contract.decimation > 1 and bool(self._contract.sub_step_inputs.get(output))

    def _reason_not_to_compare(self, output: str, values: Values) -> str | None:
        if self._depends_on_unseen(output):
            return UNSEEN_SUB_STEPS
        return UNSEEN_OBSERVATIONS if values and output not in values else None

    def _reading_after_step(self, observations: torch.Tensor) -> Reading:
        readings = self._observer.readings()
        if readings:
            reading = reading_of(observations, readings, self._file)
            return with_later_memories(reading, self._later_memories(reading), self._file)
        known = {name for name, memory in self._registered.items() if not memory.written_by_observations}
        memories = {name: value for name, value in self._reader.memories().items() if name in known}
        return Reading(self._reader.inputs(), memories)

    def _later_memories(self, reading: Reading) -> Values:
        """Memories that step() has changed since the observations were computed, which did not do that."""
        now = self._reader.memories()
        changed = changed_names(reading.memories, now)
        return {name: now[name] for name in changed if not self._registered[name].written_by_observations}

    def _compare_memories(self, reading: Reading, is_followed: bool) -> None:
        """Compare memories before the next observations; those that cannot be followed are taken from there."""
        lost = set() if is_followed else self._lost_memories()
        for name, memory in self._registered.items():
            if name in reading.memories and name not in lost:
                got = self._file.memories[name]
                self._compare(memory.output, reading.memories[name], 0, got, "before the next observations")
        if lost:
            self._file.set_memories({name: value for name, value in reading.memories.items() if name in lost})

    def _lost_memories(self) -> set[str]:
        """Memories that the file cannot follow through sub-steps whose inputs were not seen."""
        if self._contract.decimation == 1:
            return set()
        return {name for name, memory in self._registered.items() if self._contract.sub_step_inputs.get(memory.output)}

    def _compare(
        self, name: str, expected: np.ndarray, sub_step: int, got: np.ndarray | None = None, moment: str | None = None
    ) -> None:
        if name not in self._contract.random_outputs:
            value = self._file.results[name] if got is None else got
            self._tally.compare(name, expected, value, self.steps, sub_step, self._file.allowed, moment)


def _contract_for(stepped: Stepped, manager: ContextManager) -> Contract:
    contract = stepped.contract
    if contract is None:
        raise FileFormatError(f"{stepped.label} was not made by exploy: it has no contract.")
    carried = {name for memory in contract.memories if memory.carried for name in (memory.input, memory.output)}
    own = {STEP_COUNT, ACTIONS, OBSERVATIONS}
    in_file = {port.name for port in (*contract.inputs, *contract.outputs)} - carried - own
    registered = {*manager.get_input_names(), *manager.get_output_names()} - set(contract.unused_inputs)
    if in_file != registered:
        raise FileFormatError(
            f"{stepped.label} does not belong to this environment: only the file has "
            f"{sorted(in_file - registered)}, only the environment has {sorted(registered - in_file)}. Export again."
        )
    return contract


def has_terminal() -> bool:
    """Return whether the user can be asked for input."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
