"""One thing that a check of an environment has found."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters: an error makes a wrong file, a warning probably does, info is good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FindingKind(StrEnum):
    """What was found."""

    CAPTURE_FAILED = "capture failed"
    CANNOT_STEP = "cannot step"
    UNREGISTERED_INPUT = "unregistered input"
    MISSING_MEMORY = "missing memory"
    STALE_CACHE = "stale cache"
    PYTHON_STATE = "frozen Python state"
    RANDOM = "random operator"
    NOT_FINITE = "not finite"
    WRONG_NAMES = "wrong names"
    WRONG_DECIMATION = "wrong decimation"
    UNEXPLAINED = "unexplained difference"
    DETACHED = "detached"
    CONSTANT_OUTPUT = "constant output"
    NOT_OBSERVED = "not observed"
    UNUSED = "unused"
    FROZEN = "frozen"
    CARRIED = "carried"

    @property
    def usual_severity(self) -> Severity:
        """How much a finding of this kind matters, unless something speaks against it."""
        if self in (FindingKind.UNUSED, FindingKind.FROZEN, FindingKind.CARRIED):
            return Severity.INFO
        if self in (FindingKind.DETACHED, FindingKind.CONSTANT_OUTPUT, FindingKind.NOT_OBSERVED):
            return Severity.WARNING
        return Severity.ERROR


@dataclass(frozen=True)
class Finding:
    """One thing that a check of an environment has found.

    Attributes:
        kind: What it is.
        severity: How much it matters.
        tensor: The tensor, port or attribute, as one would write it in Python.
        where: File and line of the user's code that it was read or called at; empty where there is none.
        what: What happened to it.
        suggestion: Lines ready to paste, with `env` and `actor` as they were given to the check; a Python comment
            where no line alone can help; empty where nothing needs to be done.
    """

    kind: FindingKind
    severity: Severity
    tensor: str
    where: str
    what: str
    suggestion: str

    @classmethod
    def of(cls, kind: FindingKind, tensor: str, what: str, where: str = "", suggestion: str = "") -> "Finding":
        """A finding that matters as much as findings of its kind do."""
        return cls(kind, kind.usual_severity, tensor, where, what, suggestion)
