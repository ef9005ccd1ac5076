"""Steps an environment and its exported file side by side and compares everything that the file computes."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from exploy.capture.program import ACTIONS, OBSERVATIONS
from exploy.comparison import difference
from exploy.contract import STEP_COUNT, Contract, StoredMemory
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Memory
from exploy.environment.context_manager import ContextManager
from exploy.environment.exportable_environment import ExportableEnvironment, has_reset
from exploy.environment.tensor_copies import to_numpy
from exploy.environment.validation import validated_tensor
from exploy.errors import ActorError, FileFormatError, InvalidEnvironmentError
from exploy.live.gradient_mode import gradient_mode_of
from exploy.verify.rounding import RoundingSpread
from exploy.verify.step_functions import StepFunctions, find_step_functions
from exploy.verify.step_observer import Readers, Reading, StepObserver, SubStep
from exploy.verify.stepped import Stepped, Values
from exploy.verify.tally import Tally

UNSEEN_SUB_STEPS = "sub-steps cannot be seen: step() neither calls the hooks nor shares a function with apply_actions()"
UNSEEN_OBSERVATIONS = (
    "the computation of observations cannot be seen: step() neither calls the hooks nor shares a function with "
    "compute_observations()"
)
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

    `resets` counts the resets of a run; `steps` are the policy steps that were made; `sub_steps` has how often each
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
        self._stepped = stepped
        self._actor = actor
        self._contract = _contract_for(stepped, manager)
        self._tally = tally
        self._reseed_every = reseed_every
        self._watch = watch
        self._watch_closely = watch_closely
        self._starts_stored = starts_stored
        self._on_run = on_run
        self._only_actor_is_coarse = only_actor_is_coarse
        self._registered = {m.input: m for m in self._contract.memories if not m.carried}
        self._start: Values = {m.input: m.initial_value() for m in self._contract.memories}
        self._memories: Values = dict(self._start)
        self._were_set = True
        self._makes_first_step = False
        self._rounding = RoundingSpread(stepped, self._contract)
        self._observer = StepObserver(
            env, Readers(self._read_inputs, self._read_memories, self._read_outputs), self._look_closely
        )
        self.resets = 0
        self.steps = 0
        self.sub_steps: list[int] = []
        self._got: Values = {}
        self._expect_comparisons()

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
        with self._observer.watching(watched, self._reset_actor), gradient_mode_of(self._manager):
            return self._run(length, after_step)

    def _run(self, length: RunLength, after_step: Callable[[int], None]) -> torch.Tensor:
        observations, reading = self._observe_start()
        self._set_memories(reading.memories)
        episodes, since_reset = 0, 0
        while self.steps < length.steps and episodes != length.episodes:
            self._watch(self.steps)
            if self.steps and self._reseed_every and self.steps % self._reseed_every == 0:
                self._set_memories(reading.memories)
            observations, reading, was_reset = self._policy_step(observations, reading)
            after_step(self.steps)
            self.steps += 1
            since_reset = 0 if was_reset else since_reset + 1
            if since_reset == length.max_episode_steps and not was_reset:
                observations, reading = self._end_episode(observations, reading)
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
        self._run_file(0, reading.inputs)
        self._compare(OBSERVATIONS, to_numpy(observations), 0)
        actions = self._act(observations)
        self._observer.begin_step()
        observations, done = step_environment(self._env, actions)
        was_reset = done or self._observer.was_reset
        sub_steps = self._observer.sub_steps(self._contract.decimation, was_reset)
        if sub_steps is None:
            self._catch_up(was_reset)
        else:
            self._follow(sub_steps)
        if was_reset:
            return *self._follow_reset(), True
        self._note_unseen(sub_steps)
        if self._observer.applied is not None:
            self.sub_steps.append(self._observer.applied)
        reading = self._reading_after_step()
        self._compare_memories(reading, is_followed=sub_steps is not None)
        return observations, reading, False

    def _compare_finely(self, observations: torch.Tensor, reading: Reading) -> None:
        """Compare the observations that the file computes from the environment's memories, which are not coarse."""
        if OBSERVATIONS in self._contract.random_outputs:
            return
        got = self._stepped.run(0, self._memories | reading.memories | reading.inputs)[OBSERVATIONS]
        moment = "from the memories of the environment"
        self._tally.compare(OBSERVATIONS, to_numpy(observations), got, self.steps, 0, moment=moment, is_coarse=False)

    def _act(self, observations: torch.Tensor) -> torch.Tensor:
        if self._actor is None:
            self._tally.not_compared[ACTIONS] = "the session has no actor"
            return torch.from_numpy(self._got[ACTIONS].copy()).to(self._env.empty_actions().device)
        actions: torch.Tensor = self._actor(observations)
        self._compare(ACTIONS, to_numpy(actions), 0)
        return actions

    def _follow(self, sub_steps: list[SubStep]) -> None:
        """Run the file through the sub-steps that were seen, and compare each."""
        for sub_step in sub_steps:
            if sub_step.number > 0:
                self._run_file(sub_step.number, sub_step.inputs)
            for name, value in (sub_step.outputs or {}).items():
                self._compare(name, value, sub_step.number)
                if sub_step.later is not None and not self._is_kept(name, value, sub_step.later[name]):
                    self._tally.unseen.setdefault(name, f"at step {self.steps}: {UNSEEN_OUTPUTS}")

    def _is_kept(self, output: str, value: np.ndarray, later: np.ndarray) -> bool:
        """Whether an Output has kept its value while the simulator moved; a memory need not, it is compared later."""
        if output in self._computed_outputs or any(memory.output == output for memory in self._registered.values()):
            return True
        return np.array_equal(value, later, equal_nan=value.dtype.kind == "f")

    @cached_property
    def _computed_outputs(self) -> set[str]:
        """Outputs whose callback computes a new tensor at each call, so that they follow the simulator."""
        outputs = [item for item in self._manager.get_output_components() if not isinstance(item, Memory)]
        pairs = [(item.output_name, item.fetch(), item.fetch()) for item in outputs]
        return {name for name, one, two in pairs if one.data_ptr() != two.data_ptr()}

    def _note_unseen(self, sub_steps: list[SubStep] | None) -> None:
        """Note what could not be compared in a step without a reset, even if other steps show it."""
        if sub_steps is None and self._contract.decimation == 1:
            return  # the Outputs after the step are those of its only sub-step
        seen = {item.number for item in sub_steps or ()}
        for name in self._manager.get_output_names():
            if not seen.issuperset(self._tally.expected[name]) and name not in self._contract.random_outputs:
                self._tally.unseen.setdefault(name, f"at step {self.steps}: {UNSEEN_SUB_STEPS}")

    def _catch_up(self, was_reset: bool) -> None:
        """Run the file through sub-steps that were not seen, and compare what they give without new inputs."""
        inputs = self._read_inputs()
        last = self._contract.decimation - 1
        for number in range(1, last + 1):
            self._run_file(number, inputs)
        outputs = {} if was_reset else self._read_outputs()
        for name in self._manager.get_output_names():
            reason = self._reason_not_to_compare(name)
            if reason is not None:
                self._tally.not_compared.setdefault(name, reason)
            elif name in outputs:
                self._compare(name, outputs[name], last)
            if last:
                self._tally.not_compared.setdefault(name, UNSEEN_SUB_STEPS)

    def _reason_not_to_compare(self, output: str) -> str | None:
        if self._contract.decimation > 1 and self._contract.sub_step_inputs.get(output):
            return UNSEEN_SUB_STEPS
        memory = next((item for item in self._registered.values() if item.output == output), None)
        return UNSEEN_OBSERVATIONS if memory is not None and memory.written_by_observations else None

    def _reading_after_step(self) -> Reading:
        readings = self._observer.readings()
        if readings:
            return readings[-1]
        known = {name for name, memory in self._registered.items() if not memory.written_by_observations}
        memories = {name: value for name, value in self._read_memories().items() if name in known}
        return Reading(self._read_inputs(), memories)

    def _compare_memories(self, reading: Reading, is_followed: bool) -> None:
        """Compare memories before the next observations; those that cannot be followed are taken from there."""
        lost = set() if is_followed else self._lost_memories()
        for name, memory in self._registered.items():
            if name in reading.memories and name not in lost:
                got = self._memories[name]
                self._compare(memory.output, reading.memories[name], 0, got, "before the next observations")
        if lost:
            self._set_memories({name: value for name, value in reading.memories.items() if name in lost})

    def _lost_memories(self) -> set[str]:
        """Memories that the file cannot follow through sub-steps whose inputs were not seen."""
        if self._contract.decimation == 1:
            return set()
        return {name for name, memory in self._registered.items() if self._contract.sub_step_inputs.get(memory.output)}

    # -- starts -----------------------------------------------------------------------------------------------------

    def _observe_start(self) -> tuple[torch.Tensor, Reading]:
        """Observations at the start of the run, and the inputs and memories that they were computed from."""
        before = self._read_memories()
        self._observer.forget_readings()
        observations = validated_tensor(self._env, "observations_reset")
        readings = self._observer.readings()
        if readings:
            return observations, readings[-1]
        memories, written = self._read_memories(), self._written_by_observations()
        if written and same_values(before, memories):
            return self._make_first_step(observations, before)
        return observations, Reading(self._read_inputs(), memories | {name: before[name] for name in written})

    def _make_first_step(self, observations: torch.Tensor, memories: Values) -> tuple[torch.Tensor, Reading]:
        """Make one step more, which is not compared, since the observations were computed earlier.

        What they were computed from is no longer there: the computation has changed memories, and could not be seen.

        Args:
            observations: The observations.
            memories: The memories that they have left.
        """
        if self._actor is None:
            results = self._stepped.run(0, self._read_inputs() | self._memories | memories)
            actions = torch.from_numpy(results[ACTIONS].copy()).to(self._env.empty_actions().device)
        else:
            actions = self._actor(observations)
        self._observer.begin_step()
        observations, done = step_environment(self._env, actions)
        was_reset = done or self._observer.was_reset
        self._observer.sub_steps(self._contract.decimation, was_reset)
        if was_reset:
            self._makes_first_step = True
            observations, reading = self._follow_reset()
            self._makes_first_step = False
            return observations, reading
        written = {name: memories[name] for name in self._written_by_observations()}
        readings = self._observer.readings() or [Reading(self._read_inputs(), self._read_memories() | written)]
        self._set_memories(readings[-1].memories)
        return observations, readings[-1]

    def _written_by_observations(self) -> dict[str, StoredMemory]:
        return {name: memory for name, memory in self._registered.items() if memory.written_by_observations}

    def _end_episode(self, observations: torch.Tensor, reading: Reading) -> tuple[torch.Tensor, Reading]:
        """Reset the environment where it can be; else the episode just goes on."""
        if not has_reset(self._env):
            return observations, reading
        self._observer.begin_step()
        self._env.reset()
        self._reset_actor()
        self.resets += 1
        return self._observe_reset(self._observer.readings())

    def _follow_reset(self) -> tuple[torch.Tensor, Reading]:
        """Observations after a reset in a step."""
        self.resets += 1
        if not self._observer.was_reset:
            self._reset_actor()
        return self._observe_reset(self._observer.readings())

    def _observe_reset(self, in_step: list[Reading]) -> tuple[torch.Tensor, Reading]:
        """Observations after a reset; the file starts from its stored values and follows what was computed since.

        Args:
            in_step: What computations of observations since the reset, inside of the step, have started from.
        """
        before_inputs, before = self._read_inputs(), self._read_memories()
        self._observer.forget_readings()
        observations = validated_tensor(self._env, "observations_reset")
        during, after = self._observer.readings(), Reading(self._read_inputs(), self._read_memories())
        if during:
            readings = [*in_step, *during]
        elif same_values(before_inputs, after.inputs) and self._is_fresh(in_step, after):
            readings = in_step
        else:
            readings = []
        self._start_memories(readings, before, after.memories)
        last = readings[-1] if readings else Reading(after.inputs, before)
        written = {name: last.memories[name] for name in self._written_by_observations()}
        if written and not readings and same_values(before, after.memories) and not self._makes_first_step:
            return self._make_first_step(observations, before)
        return observations, Reading(last.inputs, after.memories | written)  # the actor may have been reset since then

    def _is_fresh(self, readings: list[Reading], after: Reading) -> bool:
        """Whether the last reading is of the state after the reset."""
        return bool(readings) and (self._observer.sees_observations or same_values(readings[-1].inputs, after.inputs))

    def _start_memories(self, readings: list[Reading], before: Values, after: Values) -> None:
        """Set the memories of the file after a reset, and compare the stored start values with the environment's.

        Args:
            readings: What computations of observations since the reset have started from; empty if not seen.
            before: The memories before the observations of the reset were asked for.
            after: The memories after that.
        """
        self._set_memories(self._start)
        by_observations = self._written_by_observations()
        if not self._starts_stored:
            last = readings[-1].memories if readings else before
            self._set_memories(after | {name: last[name] for name in by_observations})
            return
        for name, memory in self._used_memories().items():
            if name not in by_observations:
                self._compare_start(memory, after[name])
        if readings:
            self._follow_observations(readings, by_observations)
        else:
            for name, memory in by_observations.items():
                self._set_memories({name: before[name]})
                self._tally.unseen[memory.output] = f"at the start after a reset: {UNSEEN_OBSERVATIONS}"

    def _follow_observations(self, readings: list[Reading], memories: dict[str, StoredMemory]) -> None:
        """Compare start values with those at the first computation since the reset, and follow the later ones.

        Which one is the first is not known: the last one that finds the stored values, if any does.
        """
        starts = [index for index, item in enumerate(readings) if self._finds_start(item, memories)]
        first = starts[-1] if starts else len(readings) - 1
        for name, memory in memories.items():
            self._compare_start(memory, readings[first].memories[name])
        for reading in readings[first:-1] if memories else []:
            results = self._stepped.run(0, reading.inputs | self._memories)
            self._set_memories({name: results[memory.output] for name, memory in memories.items()})

    def _finds_start(self, reading: Reading, memories: dict[str, StoredMemory]) -> bool:
        tally = self._tally
        pairs = ((reading.memories[name], self._start[name]) for name in memories)
        return all(difference(found, start, tally.atol, tally.rtol) is None for found, start in pairs)

    def _compare_start(self, memory: StoredMemory, found: np.ndarray) -> None:
        stored = self._start[memory.input]
        if memory.output not in self._contract.random_outputs:
            moment = "start value after the reset of the environment"
            self._tally.compare(memory.output, found, stored, self.steps, 0, moment=moment, is_coarse=False)

    def _used_memories(self) -> dict[str, StoredMemory]:
        """Registered memories whose value at the start matters."""
        unused = set(self._contract.unused_inputs)
        return {name: memory for name, memory in self._registered.items() if name not in unused}

    def _set_memories(self, values: Values) -> None:
        self._memories |= values
        self._were_set = True

    # -- small parts ------------------------------------------------------------------------------------------------

    def _run_file(self, step_count: int, inputs: Values) -> None:
        memories = dict(self._memories)
        values = inputs | memories
        self._on_run(step_count, values)
        self._got = self._stepped.run(step_count, values)
        self._rounding.record(step_count, inputs, memories if self._were_set else None, self._got)
        self._were_set = False
        for memory in self._contract.memories:
            self._memories[memory.input] = self._got[memory.output]

    def _compare(
        self, name: str, expected: np.ndarray, sub_step: int, got: np.ndarray | None = None, moment: str | None = None
    ) -> None:
        if name not in self._contract.random_outputs:
            value = self._got[name] if got is None else got
            self._tally.compare(name, expected, value, self.steps, sub_step, self._rounding.allowed, moment)

    def _read_inputs(self) -> Values:
        return {
            item.input_name: to_numpy(item.fetch())
            for item in self._manager.get_input_components()
            if item.input_name not in self._registered
        }

    def _read_outputs(self) -> Values:
        return {item.output_name: self._read(item) for item in self._manager.get_output_components()}

    def _read_memories(self) -> Values:
        return {item.input_name: self._read(item) for item in self._manager.get_memory_components()}

    def _read(self, item: Any) -> np.ndarray:
        """The value of an Output or Memory; the start value if the actor has dropped its state at a reset."""
        try:
            value: np.ndarray = item.value_numpy
        except ActorError:
            if not isinstance(item, Memory):
                raise
            return self._start[item.input_name]
        return value

    def _reset_actor(self) -> None:
        if self._actor is not None:
            actions = self._env.empty_actions()
            self._actor.reset(torch.ones(actions.shape[0], dtype=torch.bool, device=actions.device))


def step_environment(env: ExportableEnvironment, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Step an environment and return the next observations and whether it was reset.

    Raises:
        InvalidEnvironmentError: If `step()` returns something else.
    """
    result: Any = env.step(actions)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], torch.Tensor):
        kinds = [type(item).__name__ for item in result] if isinstance(result, tuple) else type(result).__name__
        raise InvalidEnvironmentError(
            f"step() must return a tuple of the next observations and whether the environment was reset, got {kinds}."
        )
    return result[0], bool(torch.as_tensor(result[1]).any())


def same_values(one: Values, two: Values) -> bool:
    """Return whether two readings of the same ports are equal."""
    return one.keys() == two.keys() and all(
        np.array_equal(value, two[name], equal_nan=value.dtype.kind == "f") for name, value in one.items()
    )


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
