"""The starts of episodes in an evaluation: first observations, resets, and the start values of memories."""

from collections.abc import Mapping

import numpy as np
import torch

from exploy.capture.program import ACTIONS
from exploy.comparison import difference
from exploy.contract import Contract, StoredMemory
from exploy.environment.actor import ExportableActor
from exploy.environment.exportable_environment import ExportableEnvironment, Observations, has_reset
from exploy.environment.observations import validated_observations
from exploy.verify.environment_reader import EnvironmentReader
from exploy.verify.fed_back_file import FedBackFile
from exploy.verify.reading_choice import reading_of
from exploy.verify.step_observer import Reading, StepObserver
from exploy.verify.stepped import Values, same_values
from exploy.verify.tally import Tally

UNSEEN_OBSERVATIONS = (
    "the computation of observations cannot be seen: step() neither calls the hooks nor shares a function with "
    "compute_observations()"
)

Start = tuple[Observations, Reading]


class EpisodeStarts:
    """Observes an environment at the start of a run and after resets, and sets the memories of the file there.

    The file starts from the environment's memories. From the first reset in the run on, it starts from its stored
    values after each reset, and these are compared with those of the environment.

    Args:
        env: The environment.
        actor: The actor that steps it; None if the actions of the file do that.
        file: The file.
        contract: The contract of the file.
        reader: How to read the environment.
        observer: Sees what happens in its steps.
        tally: Where comparisons are counted.
        starts_stored: After a reset, start from the stored values; if False, from those of the environment.

    Each start is returned as the first observations, and the inputs and memories that they were computed from. `resets`
    counts the resets.
    """

    def __init__(
        self,
        env: ExportableEnvironment,
        actor: ExportableActor | None,
        file: FedBackFile,
        contract: Contract,
        reader: EnvironmentReader,
        observer: StepObserver,
        tally: Tally,
        starts_stored: bool,
    ):
        self._env = env
        self._actor = actor
        self._file = file
        self._contract = contract
        self._reader = reader
        self._observer = observer
        self._tally = tally
        self._starts_stored = starts_stored
        self._memories = {memory.input: memory for memory in contract.memories if not memory.carried}
        self._by_observations = {name: item for name, item in self._memories.items() if item.written_by_observations}
        self._makes_first_step = False
        self.resets = 0

    def begin_run(self) -> Start:
        """Start a run where the environment is."""
        observations, reading = self._observe_start()
        self._file.set_memories(reading.memories)
        return observations, reading

    def follow_reset(self, step: int) -> Start:
        """Start an episode after a reset in a step of the environment.

        Args:
            step: The number of the step, for comparisons.
        """
        self.resets += 1
        if not self._observer.was_reset:
            self.reset_actor()
        return self._observe_reset(self._observer.readings(), step)

    def reset(self, step: int) -> Start | None:
        """Reset the environment and start an episode; None if the environment cannot be reset.

        Args:
            step: The number of the step before, for comparisons.
        """
        if not has_reset(self._env):
            return None
        self._observer.begin_step()
        self._env.reset()
        self.reset_actor()
        self.resets += 1
        return self._observe_reset(self._observer.readings(), step)

    def reset_actor(self) -> None:
        """Reset the actor, if there is one."""
        if self._actor is not None:
            actions = self._env.empty_actions()
            self._actor.reset(torch.ones(actions.shape[0], dtype=torch.bool, device=actions.device))

    # -- the start of a run ------------------------------------------------------------------------------------------

    def _observe_start(self) -> Start:
        before = self._reader.memories()
        self._observer.forget_readings()
        observations = validated_observations(self._env, "observations_reset")
        readings = self._observer.readings()
        if readings:
            return observations, reading_of(observations, readings, self._file)
        memories = self._reader.memories()
        if self._by_observations and same_values(before, memories):
            return self._make_first_step(observations, before, step=0)
        written = {name: before[name] for name in self._by_observations}
        return observations, Reading(self._reader.inputs(), memories | written)

    def _make_first_step(self, observations: Observations, memories: Values, step: int) -> Start:
        """Make one step more, which is not compared, since the observations were computed earlier.

        What they were computed from is no longer there: the computation has changed memories, and could not be seen.

        Args:
            observations: The observations.
            memories: The memories that they have left.
            step: The number of the step, for comparisons.
        """
        if self._actor is None:
            results = self._file.try_policy_step(self._reader.inputs() | memories)
            actions = torch.from_numpy(results[ACTIONS].copy()).to(self._env.empty_actions().device)
        else:
            actions = self._actor(observations)
        observations, done = self._observer.step(actions)
        was_reset = done or self._observer.was_reset
        self._observer.sub_steps(self._contract.decimation, was_reset)
        if was_reset:
            self._makes_first_step = True
            observations, reading = self.follow_reset(step)
            self._makes_first_step = False
            return observations, reading
        written = {name: memories[name] for name in self._by_observations}
        readings = self._observer.readings() or [Reading(self._reader.inputs(), self._reader.memories() | written)]
        reading = reading_of(observations, readings, self._file)
        self._file.set_memories(reading.memories)
        return observations, reading

    # -- after a reset -----------------------------------------------------------------------------------------------

    def _observe_reset(self, in_step: list[Reading], step: int) -> Start:
        """Observations after a reset; the file starts from its stored values and follows what was computed since.

        Args:
            in_step: What computations of observations since the reset, inside of the step, have started from.
            step: The number of the step, for comparisons.
        """
        before_inputs, before = self._reader.inputs(), self._reader.memories()
        self._observer.forget_readings()
        observations = validated_observations(self._env, "observations_reset")
        during, after = self._observer.readings(), Reading(self._reader.inputs(), self._reader.memories())
        if during:
            readings = [*in_step, *during]
        elif same_values(before_inputs, after.inputs) and self._is_fresh(in_step, after):
            readings = in_step
        else:
            readings = []
        self._start_memories(readings, before, after.memories, step)
        last = readings[-1] if readings else Reading(after.inputs, before)
        if readings and not self._by_observations:
            last = reading_of(observations, readings, self._file)
        written = {name: last.memories[name] for name in self._by_observations}
        if written and not readings and same_values(before, after.memories) and not self._makes_first_step:
            return self._make_first_step(observations, before, step)
        return observations, Reading(last.inputs, after.memories | written)  # the actor may have been reset since then

    def _is_fresh(self, readings: list[Reading], after: Reading) -> bool:
        """Whether the last reading is of the state after the reset."""
        return bool(readings) and (self._observer.sees_observations or same_values(readings[-1].inputs, after.inputs))

    def _start_memories(self, readings: list[Reading], before: Values, after: Values, step: int) -> None:
        """Set the memories of the file after a reset, and compare the stored start values with the environment's.

        Args:
            readings: What computations of observations since the reset have started from; empty if not seen.
            before: The memories before the observations of the reset were asked for.
            after: The memories after that.
            step: The number of the step, for comparisons.
        """
        self._file.set_memories(self._file.start)
        if not self._starts_stored:
            last = readings[-1].memories if readings else before
            self._file.set_memories(after | {name: last[name] for name in self._by_observations})
            return
        for name, memory in self._memories.items():
            if name not in self._contract.unused_inputs and name not in self._by_observations:
                self._compare_start(memory, after[name], step)
        if readings:
            self._follow_observations(readings, step)
        else:
            for name, memory in self._by_observations.items():
                self._file.set_memories({name: before[name]})
                self._tally.unseen[memory.output] = f"at the start after a reset: {UNSEEN_OBSERVATIONS}"

    def _follow_observations(self, readings: list[Reading], step: int) -> None:
        """Compare start values with those at the first computation since the reset.

        Which one is the first is not known: the last one that finds the stored values, if any does. What later ones
        find is taken from the environment: a policy step of the file also writes what processing actions writes.
        """
        memories = self._by_observations
        starts = [index for index, item in enumerate(readings) if self._finds_start(item, memories)]
        first = starts[-1] if starts else len(readings) - 1
        for name, memory in memories.items():
            self._compare_start(memory, readings[first].memories[name], step)
        if first < len(readings) - 1:
            self._file.set_memories({name: readings[-1].memories[name] for name in memories})

    def _finds_start(self, reading: Reading, memories: Mapping[str, StoredMemory]) -> bool:
        tally = self._tally
        pairs = ((reading.memories[name], self._file.start[name]) for name in memories)
        return all(difference(found, start, tally.atol, tally.rtol) is None for found, start in pairs)

    def _compare_start(self, memory: StoredMemory, found: np.ndarray, step: int) -> None:
        stored = self._file.start[memory.input]
        if memory.output not in self._contract.random_outputs:
            moment = "start value after the reset of the environment"
            self._tally.compare(memory.output, found, stored, step, 0, moment=moment, is_coarse=False)
