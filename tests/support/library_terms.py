"""A library of terms that keeps its state in globals, as some simulators do."""

phase: float = 0.0
speeds = {"walk": 0.0}
calls = 0


class PhaseTerm:
    """A term as an object."""

    def __call__(self) -> float:
        return phase


def speed() -> float:
    """A term as a function."""
    count_call()
    return speeds["walk"]


def count_call() -> None:
    """Count what no result depends on."""
    global calls
    calls += 1


def advance() -> None:
    """Let time pass."""
    global phase
    phase += 0.01
    speeds["walk"] += 0.01
