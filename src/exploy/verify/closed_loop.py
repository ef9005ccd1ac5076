"""Steps an environment and its exported file side by side and compares everything that the file computes."""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from exploy.capture.program import ACTIONS
from exploy.contract import STEP_COUNT, Contract
from exploy.environment.actor import ExportableActor
from exploy.environment.context_manager import ContextManager
from exploy.environment.exportable_environment import ExportableEnvironment, Observations
from exploy.environment.observations import observation_arrays
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import FileFormatError, InvalidEnvironmentError
from exploy.live.gradient_mode import gradient_mode_of
from exploy.verify.environment_reader import EnvironmentReader
from exploy.verify.episode_starts import EpisodeStarts
from exploy.verify.fed_back_file import FedBackFile
from exploy.verify.inside_of_steps import UNSEEN_SUB_STEPS, InsideOfSteps
from exploy.verify.reading_choice import reading_of, with_later_memories
from exploy.verify.step_functions import StepFunctions, find_step_functions
from exploy.verify.step_observer import Reading, StepObserver
from exploy.verify.stepped import Stepped, Values, changed_names
from exploy.verify.tally import Tally

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
        self._inside = InsideOfSteps(self._file, self._contract, self._reader, self._observer, tally, self._compare)
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
    ) -> Observations:
        """Evaluate over some policy steps and return the last observations.

        Args:
            length: How many policy steps or episodes to make.
            after_step: Called with the number of each step that is done.
            functions: The functions by which the environment steps; found here if None.
        """
        watched = functions or find_step_functions(self._env, self._actor)
        with self._observer.watching(watched, self._starts.reset_actor), gradient_mode_of(self._manager):
            return self._run(length, after_step)

    def _run(self, length: RunLength, after_step: Callable[[int], None]) -> Observations:
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
        for port in contract.outputs:
            if port.name in contract.observation_outputs:
                tally.element_names[port.name] = contract.element_names(port)
                tally.expected[port.name] = range(1)
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

    def _policy_step(self, observations: Observations, reading: Reading) -> tuple[Observations, Reading, bool]:
        if self._only_actor_is_coarse and reading.memories.keys() >= self._registered.keys():
            self._compare_finely(observations, reading)
        self._file.run(0, reading.inputs)
        for name, value in self._observed(observations).items():
            self._compare(name, value, 0)
        actions = self._act(observations)
        was_decided = self._observer.is_decided
        observations, done = self._observer.step(actions)
        was_reset = done or self._observer.was_reset
        sub_steps = self._observer.sub_steps(self._contract.decimation, was_reset)
        reading = reading if was_reset else self._reading_after_step(observations)
        if sub_steps is None:
            seen = self._inside.catch_up(None if was_reset else reading)
        else:
            is_first = self._observer.is_decided and not was_decided
            seen = self._inside.follow(sub_steps, None if was_reset else reading, self.steps, is_first)
        if was_reset:
            return *self._starts.follow_reset(self.steps), True
        self._note_unseen(seen)
        self._count_sub_steps(seen)
        self._compare_memories(reading, is_followed=sub_steps is not None)
        return observations, reading, False

    def _count_sub_steps(self, seen: Mapping[str, Collection[int]]) -> None:
        """Note how often the step has applied actions.

        A step may apply targets once that the simulator keeps while it moves as often as the decimation says.
        """
        applied, decimation = self._observer.applied, self._contract.decimation
        if applied is None:
            return
        is_kept = applied == 1 and all(len(seen.get(name, ())) == decimation for name in self._reader.outputs_alone())
        self.sub_steps.append(decimation if is_kept and self._observer.moves(decimation) else applied)

    def _observed(self, observations: Observations) -> Values:
        """The observations of the environment that the file computes, by output.

        Raises:
            InvalidEnvironmentError: If the environment has not returned all of them.
        """
        values = observation_arrays(observations)
        missing = [name for name in self._contract.observation_outputs if name not in values]
        if missing:
            raise InvalidEnvironmentError(
                f"The environment has returned {', '.join(values)}, without {', '.join(missing)}. step() and "
                "observations_reset() must return all groups that compute_observations() returns."
            )
        return {name: values[name] for name in self._contract.observation_outputs}

    def _compare_finely(self, observations: Observations, reading: Reading) -> None:
        """Compare the observations that the file computes from the environment's memories, which are not coarse."""
        got = self._file.try_policy_step(reading.memories | reading.inputs)
        moment = "from the memories of the environment"
        for name, value in self._observed(observations).items():
            if name not in self._contract.random_outputs:
                self._tally.compare(name, value, got[name], self.steps, 0, moment=moment, is_coarse=False)

    def _act(self, observations: Observations) -> torch.Tensor:
        if self._actor is None:
            self._tally.not_compared[ACTIONS] = "the session has no actor"
            return torch.from_numpy(self._file.results[ACTIONS].copy()).to(self._env.empty_actions().device)
        actions: torch.Tensor = self._actor(observations)
        self._compare(ACTIONS, to_numpy(actions), 0)
        return actions

    def _note_unseen(self, seen: Mapping[str, Collection[int]]) -> None:
        """Note what could not be compared in a step without a reset, even if other steps show it.

        Args:
            seen: The sub-steps at which each Output was seen.
        """
        for name in self._manager.get_output_names():
            missing = set(self._tally.expected[name]) - set(seen.get(name, ()))
            if missing and name not in self._contract.random_outputs:
                reason = self._tally.not_compared.get(name, UNSEEN_SUB_STEPS)
                self._tally.unseen.setdefault(name, f"at step {self.steps}: {reason}")

    def _reading_after_step(self, observations: Observations) -> Reading:
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
    own = {STEP_COUNT, ACTIONS, *contract.observation_outputs}
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
