"""Steps an environment and its exported file side by side and compares all outputs of the file."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from exploy.capture.program import ACTIONS, OBSERVATIONS
from exploy.contract import STEP_COUNT, Contract, StoredMemory
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Memory
from exploy.environment.context_manager import ContextManager
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.tensor_copies import to_numpy
from exploy.environment.validation import validated_tensor
from exploy.errors import ActorError, FileFormatError, InvalidEnvironmentError
from exploy.live.gradient_mode import gradient_mode_of
from exploy.verify.stepped import Stepped, Values
from exploy.verify.tally import Tally

NEEDS_HOOKS = "needs the hooks"


@dataclass(frozen=True)
class _Reading:
    """Inputs and memories of the environment just before the observations are computed."""

    inputs: Values
    memories: Values


class ClosedLoop:
    """One evaluation of a file against an environment.

    Args:
        env: The environment. It is stepped.
        manager: The components to compare.
        stepped: The file or captured program to compare with the environment.
        actor: The actor that computes the actions. If None, the environment is stepped with the actions of the file.
        tally: Counts the comparisons.
        reseed_every: Number of steps after which the memories are copied from the environment; 0 for never.
        watch: Called with the step number before each policy step and after the last one.
        watch_closely: Also call `watch` at each hook of the environment.

    `resets` is the number of resets in a run. `sub_steps` has the number of sub-steps of each policy step without a
    reset, as counted by the hooks.

    Raises:
        FileFormatError: If the file was not made by exploy, or its ports differ from those of the environment.
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
    ):
        self._env = env
        self._manager = manager
        self._stepped = stepped
        self._actor = actor
        self._contract = _contract_for(stepped, manager)
        self._tally = tally
        self._tally.element_names[OBSERVATIONS] = self._contract.observation_names
        self._reseed_every = reseed_every
        self._watch = watch
        self._watch_closely = watch_closely
        self._registered = {m.input: m for m in self._contract.memories if not m.carried}
        self._memories: Values = {m.input: m.initial_value() for m in self._contract.memories}
        self._hook_reading: _Reading | None = None
        self._sub_steps_seen = 0
        self._was_reset = False
        self.resets = 0
        self.sub_steps: list[int] = []
        self.has_hooks = False
        self._step_number = 0
        self._got: Values = {}

    def run(self, num_steps: int, after_step: Callable[[int], None]) -> torch.Tensor:
        """Run and compare some policy steps, and return the last observations.

        Args:
            num_steps: Number of policy steps.
            after_step: Called with the step number after each step.
        """
        self._env.register_evaluation_hooks(self._on_update, self._on_reset, self._on_sub_step)
        try:
            return self._run(num_steps, after_step)
        finally:
            self._env.register_evaluation_hooks(_ignore, _ignore, _ignore)

    def _run(self, num_steps: int, after_step: Callable[[int], None]) -> torch.Tensor:
        with gradient_mode_of(self._manager):
            observations, reading = self._observe_reset()
            self._memories |= reading.memories
            for self._step_number in range(num_steps):
                self._watch(self._step_number)
                if self._step_number and self._reseed_every and self._step_number % self._reseed_every == 0:
                    self._memories |= reading.memories
                observations, reading = self._policy_step(observations, reading)
                after_step(self._step_number)
            self._watch(num_steps)
        return observations

    # -- hooks that the environment calls ---------------------------------------------------------------------------

    def _on_update(self) -> None:
        self._look_closely()
        self._hook_reading = _Reading(self._read_inputs(), self._read_memories(self._registered))

    def _on_reset(self) -> None:
        self._was_reset = True
        self._reset_actor()

    def _on_sub_step(self, sub_step: int) -> None:
        self._sub_steps_seen += 1
        self.has_hooks = True
        self._look_closely()
        if sub_step > 0:
            self._run_file(sub_step, self._read_inputs())
        self._compare_outputs(sub_step, list(self._manager.get_output_names()))

    def _look_closely(self) -> None:
        if self._watch_closely:
            self._watch(self._step_number)

    # -- one policy step --------------------------------------------------------------------------------------------

    def _policy_step(self, observations: torch.Tensor, reading: _Reading) -> tuple[torch.Tensor, _Reading]:
        self._run_file(0, reading.inputs)
        self._compare(OBSERVATIONS, to_numpy(observations), 0)
        actions = self._act(observations)
        self._hook_reading, self._sub_steps_seen, self._was_reset = None, 0, False
        observations, done = step_environment(self._env, actions)
        if not self._sub_steps_seen:
            self._catch_up(done)
        if self._sub_steps_seen and not done and not self._was_reset:
            self.sub_steps.append(self._sub_steps_seen)
        if done or self._was_reset:
            self.resets += 1
            if not self._was_reset:
                self._reset_actor()
            observations, reading = self._observe_reset()
            self._memories |= reading.memories
            return observations, reading
        reading = self._hook_reading or _Reading(self._read_inputs(), self._read_memories(self._known_after_step()))
        if not self._sub_steps_seen:
            self._memories |= {
                name: reading.memories[name] for name in self._lost_without_hooks() & set(reading.memories)
            }
        return observations, reading

    def _act(self, observations: torch.Tensor) -> torch.Tensor:
        if self._actor is None:
            self._tally.not_compared[ACTIONS] = "the session has no actor"
            return torch.from_numpy(self._got[ACTIONS].copy()).to(self._env.empty_actions().device)
        actions: torch.Tensor = self._actor(observations)
        self._compare(ACTIONS, to_numpy(actions), 0)
        return actions

    def _observe_reset(self) -> tuple[torch.Tensor, _Reading]:
        """The observations after a reset, and the inputs and memories that they were computed from."""
        before = self._read_memories(self._registered)
        observations = validated_tensor(self._env, "observations_reset")
        if self._hook_reading is not None:
            return observations, self._hook_reading
        memories = self._read_memories(self._registered)
        memories |= {name: before[name] for name, memory in self._registered.items() if memory.written_by_observations}
        return observations, _Reading(self._read_inputs(), memories)

    def _catch_up(self, done: bool) -> None:
        """Without hooks: run the sub-steps of the last step, and compare outputs that need no new inputs."""
        inputs = self._read_inputs()
        for sub_step in range(1, self._contract.decimation):
            self._run_file(sub_step, inputs)
        names = []
        for name in self._manager.get_output_names():
            if self._needs_hooks(name):
                self._tally.not_compared[name] = NEEDS_HOOKS
            else:
                names.append(name)
        if not done:
            self._compare_outputs(self._contract.decimation - 1, names)

    def _needs_hooks(self, output: str) -> bool:
        reads_fresh_inputs = self._contract.decimation > 1 and bool(self._contract.sub_step_inputs.get(output))
        memory = next((item for item in self._registered.values() if item.output == output), None)
        return reads_fresh_inputs or (memory is not None and memory.written_by_observations)

    def _lost_without_hooks(self) -> set[str]:
        """Memories that the file cannot compute, because the inputs of the sub-steps are unknown."""
        if self._contract.decimation == 1:
            return set()
        return {name for name, memory in self._registered.items() if self._contract.sub_step_inputs.get(memory.output)}

    def _known_after_step(self) -> dict[str, StoredMemory]:
        """Memories that can still be read after a step, because computing the observations does not write them."""
        return {name: memory for name, memory in self._registered.items() if not memory.written_by_observations}

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _run_file(self, step_count: int, inputs: Values) -> None:
        self._got = self._stepped.run(step_count, inputs | self._memories)
        for memory in self._contract.memories:
            self._memories[memory.input] = self._got[memory.output]

    def _compare_outputs(self, sub_step: int, names: list[str]) -> None:
        for output in self._manager.get_output_components():
            if output.output_name in names:
                self._compare(output.output_name, output.value_numpy, sub_step)

    def _compare(self, name: str, expected: np.ndarray, sub_step: int) -> None:
        if name in self._contract.random_outputs:
            self._tally.not_compared[name] = "depends on random numbers"
            return
        self._tally.compare(name, expected, self._got[name], self._step_number, sub_step)

    def _read_inputs(self) -> Values:
        return {
            item.input_name: to_numpy(item.fetch())
            for item in self._manager.get_input_components()
            if item.input_name not in self._registered
        }

    def _read_memories(self, wanted: dict[str, StoredMemory]) -> Values:
        components = self._manager.get_memory_components()
        return {item.input_name: self._read_memory(item) for item in components if item.input_name in wanted}

    def _read_memory(self, memory: Memory) -> np.ndarray:
        """The value of a memory, or its start value if the actor dropped its state at a reset."""
        try:
            return memory.value_numpy
        except ActorError:
            return self._registered[memory.input_name].initial_value()

    def _reset_actor(self) -> None:
        if self._actor is not None:
            actions = self._env.empty_actions()
            self._actor.reset(torch.ones(actions.shape[0], dtype=torch.bool, device=actions.device))


def step_environment(env: ExportableEnvironment, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Step an environment and return the next observations and whether it was reset.

    Raises:
        InvalidEnvironmentError: If step() returns anything else.
    """
    result: Any = env.step(actions)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], torch.Tensor):
        kinds = [type(item).__name__ for item in result] if isinstance(result, tuple) else type(result).__name__
        raise InvalidEnvironmentError(
            f"step() must return a tuple of the next observations and whether the environment was reset, got {kinds}."
        )
    return result[0], bool(torch.as_tensor(result[1]).any())


def _ignore(*_: object) -> None:
    """Replace a hook while no evaluation is running."""


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
    """Whether stdin and stdout are a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
