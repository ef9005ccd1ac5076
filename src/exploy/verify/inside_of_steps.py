"""Compares what a file and an environment compute inside of a policy step: at its sub-steps."""

from collections.abc import Callable

import numpy as np

from exploy.comparison import difference
from exploy.contract import Contract, StoredMemory
from exploy.verify.environment_reader import EnvironmentReader
from exploy.verify.episode_starts import UNSEEN_OBSERVATIONS
from exploy.verify.fed_back_file import FedBackFile
from exploy.verify.output_watch import different, values_at_moves, values_of
from exploy.verify.step_observer import Reading, StepObserver
from exploy.verify.stepped import Values, same_array
from exploy.verify.sub_steps import SubStep
from exploy.verify.tally import Tally

UNSEEN_SUB_STEPS = "sub-steps cannot be seen: step() neither calls the hooks nor shares a function with apply_actions()"
UNSEEN_MOVES = (
    "sub-steps cannot be seen, nor that the simulator moves as often as decimation says: step() neither calls the "
    "hooks nor shares a function with apply_actions()"
)
UNSEEN_OUTPUTS = (
    "step() changes it after the function that it shares with apply_actions() has returned, so that it is not known "
    "what the simulator got"
)

Compare = Callable[[str, np.ndarray, int, np.ndarray], None]


class InsideOfSteps:
    """Runs a file through the sub-steps of a step that the environment has made, and compares Outputs and memories.

    Args:
        file: The file; its policy step is done already.
        contract: The contract of the file.
        reader: How to read the environment.
        observer: Has seen what happened in the step.
        tally: Where it is noted what could not be compared.
        compare: Compares an output: its name, the environment's value, the number of the sub-step, the file's value.
    """

    def __init__(
        self,
        file: FedBackFile,
        contract: Contract,
        reader: EnvironmentReader,
        observer: StepObserver,
        tally: Tally,
        compare: Compare,
    ):
        self._file = file
        self._contract = contract
        self._reader = reader
        self._observer = observer
        self._tally = tally
        self._compare = compare
        self._memories = {memory.output: memory for memory in contract.memories if not memory.carried}

    def follow(
        self, sub_steps: list[SubStep], reading: Reading | None, step: int, is_first: bool
    ) -> dict[str, set[int]]:
        """Run the file through the sub-steps that were seen, and compare each.

        A memory that differs there is compared with its value after the step: step() may write it later than
        process_actions() does, if nothing reads it in between.

        Args:
            sub_steps: The sub-steps.
            reading: Inputs and memories after the step; None after a reset.
            step: The number of the step, for the report.
            is_first: Whether it is the first time that sub-steps are seen. If Outputs keep their values then, they need
                not be watched any more.

        Returns:
            The sub-steps that were seen, for each Output and memory.
        """
        late: list[tuple[StoredMemory, int, np.ndarray, np.ndarray]] = []
        self._observer.watches_outputs &= not is_first
        windows = [item.periods for item in sub_steps]
        for sub_step in sub_steps:
            if sub_step.number > 0:
                self._file.run(sub_step.number, sub_step.inputs)
            for name, value in (sub_step.outputs or {}).items():
                if name in self._memories and not self._agrees(name, value):
                    late.append((self._memories[name], sub_step.number, value, self._file.results[name]))
                    continue
                is_certain = sub_step.later is None and not sub_step.periods
                if is_certain or name not in self._reader.kept_outputs:
                    self._compare(name, value, sub_step.number, self._file.results[name])
                    continue
                after = value if sub_step.later is None else sub_step.later[name]
                got = values_at_moves(windows, sub_step.number, name) or different([value, after])
                self._compare_output(name, value, got, step, sub_step.number)
                if len(different([value, after, *got])) > 1:
                    self._observer.watches_outputs = True
        if reading is not None:
            for memory, number, value, result in late:
                if memory.input in reading.memories:
                    value, result = reading.memories[memory.input], self._file.memories[memory.input]
                self._compare(memory.output, value, number, result)
        return {name: {item.number for item in sub_steps} for name in self._reader.output_names}

    def _compare_output(self, name: str, value: np.ndarray, got: list[np.ndarray], step: int, sub_step: int) -> None:
        """Compare an Output with what the simulator got, if that is known.

        Args:
            name: The Output.
            value: Its value after the function that applies actions.
            got: The values that the simulator may have got.
            step: The number of the step.
            sub_step: The number of the sub-step.
        """
        if len(got) == 1:
            self._compare(name, got[0], sub_step, self._file.results[name])
            return
        nearest = next((item for item in got if self._agrees(name, item)), value)
        self._compare(name, nearest, sub_step, self._file.results[name])
        self._tally.unseen.setdefault(name, f"at step {step}: {UNSEEN_OUTPUTS}")

    def _agrees(self, name: str, value: np.ndarray) -> bool:
        got, tally = self._file.results[name], self._tally
        is_near = value.dtype.kind == "f" and np.abs(got - value).max(initial=0.0) <= tally.atol  # the usual, quickly
        return bool(is_near) or difference(value, got, tally.atol, tally.rtol) is None

    def catch_up(self, reading: Reading | None) -> dict[str, set[int]]:
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
        if reading is not None:
            self._observer.watches_outputs = any(self._is_worth_watching(name) for name in held)
        values = {} if reading is None else self._values_after_step(reading)
        is_whole = held.keys() == self._reader.outputs_alone().keys()
        compared: dict[str, set[int]] = {}
        for name in self._reader.output_names:
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
        if self._contract.decimation > 1 and not self._observer.moves(self._contract.decimation):
            for name in names:
                self._tally.not_compared.setdefault(name, UNSEEN_MOVES)
            return {}
        found = {name: values_at_moves([periods], 0, name) for name in names} if periods else {}
        return {name: values[0] for name, values in found.items() if len(values) == 1}

    def _is_worth_watching(self, output: str) -> bool:
        """Whether an Output must be watched to be known: not if it can be read after the step."""
        return self._contract.decimation > 1 or len(values_of(self._observer.periods, output)) > 2

    def _values_after_step(self, reading: Reading) -> Values:
        """Outputs and memories after the step; memories that the computation of observations writes, before it."""
        values = self._reader.outputs()
        for output, memory in self._memories.items():
            if memory.written_by_observations:
                values.pop(output)
                values |= {output: reading.memories[memory.input]} if memory.input in reading.memories else {}
        return values

    def _same_as_last(self, name: str, results: list[Values]) -> list[int]:
        """The sub-steps after which an output has the value that it has after the last; all for an Output."""
        pairs = enumerate(results)
        is_output = name not in self._memories
        return [number for number, item in pairs if is_output or same_array(item[name], results[-1][name])]

    def _depends_on_unseen(self, output: str) -> bool:
        """Whether an output depends on Inputs that only sub-steps would show."""
        return self._contract.decimation > 1 and bool(self._contract.sub_step_inputs.get(output))

    def _reason_not_to_compare(self, output: str, values: Values) -> str | None:
        if self._depends_on_unseen(output):
            return UNSEEN_SUB_STEPS
        return UNSEEN_OBSERVATIONS if values and output not in values else None
