"""The last command of a loop: what the user gives as `safe=`, and stop values for everything else."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from exploy.contract import Port
from exploy.errors import RuntimeInputError
from exploy.runtime.given_outputs import validated_outputs
from exploy.runtime.stop_values import Outputs, StopValues

Safe = Mapping[str, Any] | Callable[[Outputs], Mapping[str, Any]]


class SafeCommand:
    """What a loop writes last.

    Args:
        safe: Outputs, or a function that returns some from the last outputs. None for stop values alone.
        stops: The stop values of all outputs.
        like: Arrays with the dtype and shape of each output.
        ports: The ports of the outputs, in the order set by the user.

    Raises:
        RuntimeInputError: If `safe` is invalid, or nothing says what to leave an output with.
    """

    def __init__(self, safe: Safe | None, stops: StopValues, like: Mapping[str, np.ndarray], ports: Mapping[str, Port]):
        if safe is not None and not callable(safe) and not isinstance(safe, Mapping):
            raise RuntimeInputError(
                f"safe must be a dictionary of outputs, or a function that returns one, got {safe!r}."
            )
        self._function = safe if callable(safe) else None
        self._stops, self._like, self._ports = stops, like, ports
        self._given = validated_outputs("safe", safe, like, ports) if isinstance(safe, Mapping) else {}
        if self._function is None:
            stops.require_decided("serve_rate() does not start.", except_for=self._given)

    def outputs(self, last: Outputs | None) -> tuple[Outputs | None, BaseException | None]:
        """Return the outputs to write, and the error of a `safe` function that failed or returned invalid outputs.

        Args:
            last: The last outputs, or None if there was no good tick. The function is not called then.

        Returns:
            The outputs, or None if nothing is known. What `safe` does not give are stop values. If its function fails,
            all are, and an output without a stop value keeps its last value.
        """
        command = self._stops.command(last)
        if last is None or command is None or self._function is None:
            return {**(command or self._stops.fixed), **self._given} if command or self._given else None, None
        try:
            returned = self._function({name: value.copy() for name, value in last.items()})
            chosen = validated_outputs("safe", returned, self._like, self._ports)
            self._stops.require_decided("safe: the function must return them.", except_for=chosen)
        except BaseException as error:
            return command, error
        return command | chosen, None
