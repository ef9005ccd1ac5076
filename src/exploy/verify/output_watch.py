"""The values that Outputs have inside of a step, and which Inputs change while they have them.

The simulator gets an Output at some time between the function that computes it and the next one. A step may change the
Output in between: weaken it before the simulator moves, or clear it afterwards. Inputs tell the two apart, because they
change when the simulator moves. So both are looked at before and after each torch operator of a step.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch.utils._python_dispatch import TorchDispatchMode

from exploy.verify.stepped import Values, changed_names, same_array, same_values


@dataclass
class Period:
    """A time in which all Outputs keep their values, and the Inputs that change in it."""

    outputs: Values
    changed: set[str] = field(default_factory=set)


class OutputWatch(TorchDispatchMode):
    """While it is entered, looks at Outputs and Inputs at each torch operator.

    Args:
        read_inputs: Reads the Inputs.
        read_outputs: Reads the Outputs.

    `periods` has what was seen, in order.
    """

    def __init__(self, read_inputs: Callable[[], Values], read_outputs: Callable[[], Values]):
        super().__init__()
        self._read_inputs = read_inputs
        self._read_outputs = read_outputs
        self._inputs = read_inputs()
        self._was_assigned = False
        self._is_paused = False
        self._changes: Counter[str] = Counter()
        self.periods = [Period(read_outputs())]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, and look before and after."""
        if self._is_paused:
            return func(*args, **(kwargs or {}))
        self._look(in_operator=False)
        result = func(*args, **(kwargs or {}))
        self._look(in_operator=True)
        return result

    @property
    def moves(self) -> int:
        """How often the Input that changed most often was seen to change."""
        return max(self._changes.values(), default=0)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not look at operators for a while, since they do not belong to the step."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    def cut(self) -> int:
        """Begin a new period, for those who want to know what happens from now on, and return its index."""
        self._look(in_operator=False)
        self.periods.append(Period(self.periods[-1].outputs))
        self._was_assigned = False
        return len(self.periods) - 1

    def finish(self) -> None:
        """Look once more, at the end of the step."""
        self._look(in_operator=False)

    def _look(self, in_operator: bool) -> None:
        inputs, outputs = self._read_inputs(), self._read_outputs()
        changed = changed_names(self._inputs, inputs)
        self._changes.update(changed)
        last = self.periods[-1]
        if same_values(last.outputs, outputs):
            last.changed |= changed
        else:
            if self._was_assigned and not in_operator:
                last.changed |= changed  # both have changed since the last operator: it is not known which was first
            self.periods.append(Period(outputs, changed))
            self._was_assigned = True
        self._inputs = inputs


def different(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The values without those that were there before."""
    return [one for index, one in enumerate(values) if not any(same_array(one, two) for two in values[:index])]


def values_of(periods: Iterable[Period], output: str) -> list[tuple[np.ndarray, set[str]]]:
    """The values that one Output has had, in order, and the Inputs that changed while it had them."""
    found: list[tuple[np.ndarray, set[str]]] = []
    for period in periods:
        value = period.outputs[output]
        if found and same_array(found[-1][0], value):
            found[-1][1].update(period.changed)
        else:
            found.append((value, set(period.changed)))
    return found


def values_when_inputs_changed(
    periods: Iterable[Period], output: str, inputs: set[str] | None = None
) -> list[np.ndarray]:
    """The different values that an Output had when Inputs changed, or when some of the given Inputs did."""
    moving = [value for value, changed in values_of(periods, output) if (changed & inputs if inputs else changed)]
    return different(moving)


def values_at_moves(windows: Sequence[Sequence[Period]], number: int, output: str) -> list[np.ndarray]:
    """The different values of an Output that the simulator may have got in a sub-step; one, if it is known.

    Inputs may also change after the simulator has moved, in the last sub-step above all: commands, or what is computed
    from the state. So where there are several values, only Inputs count that change with a single value elsewhere.

    Args:
        windows: The periods of each sub-step.
        number: The number of the sub-step.
        output: The Output.
    """
    values = values_when_inputs_changed(windows[number], output)
    if len(values) < 2:
        return values
    clear = [window for window in windows if len(values_when_inputs_changed(window, output)) == 1]
    inputs = {name for window in clear for period in window for name in period.changed}
    return values_when_inputs_changed(windows[number], output, inputs) or values
