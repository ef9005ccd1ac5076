"""What a comparison of a file with its environment ends with."""

from enum import StrEnum


class Verdict(StrEnum):
    """Whether a file behaves like its environment.

    AGREES: Everything that the file computes was compared at every rate, and nothing differs by more than the tolerance
        or than rounding can do.
    DIFFERS: Something was beyond that.
    INCOMPLETE: Nothing differs, but something could not be compared.
    """

    AGREES = "agrees"
    DIFFERS = "differs"
    INCOMPLETE = "incomplete"
