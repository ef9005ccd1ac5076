"""One finding of a check."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error makes the file wrong, a warning probably does, an info does not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class FindingKind(StrEnum):
    """The kind of a finding."""

    CAPTURE_FAILED = "capture failed"
    CANNOT_STEP = "cannot step"
    CANNOT_LOWER = "no file form"
    UNREGISTERED_INPUT = "unregistered input"
    MISSING_MEMORY = "missing memory"
    WRITTEN_BY_STEP = "written by step()"
    STALE_CACHE = "stale cache"
    OUTSIDE_TORCH = "outside of torch"
    WRONG_SUBSTITUTE = "wrong substitute"
    PYTHON_STATE = "frozen Python state"
    UNWRITTEN_CONNECTION = "connection not written"
    RANDOM = "random operator"
    NOT_FINITE = "not finite"
    WRONG_NAMES = "wrong names"
    WRONG_DECIMATION = "wrong decimation"
    START_VALUE = "wrong start value"
    NO_CONSTANT_START = "no constant start"
    UNEXPLAINED = "unexplained difference"
    DETACHED = "detached"
    CONSTANT_OUTPUT = "constant output"
    NOT_OBSERVED = "not observed"
    SIMULATOR_ONLY = "simulator only"
    NEEDS_ESTIMATOR = "needs an estimator"
    UNKNOWN_SOURCE = "unknown source"
    UNUSED = "unused"
    FROZEN = "frozen"
    CARRIED = "carried"
    DROPPED_CHECK = "dropped check"
    NO_RESET_SEEN = "no reset seen"
    NOT_RESTORED = "not restored"

    @property
    def usual_severity(self) -> Severity:
        """The default severity of findings of this kind."""
        if self in _INFOS:
            return Severity.INFO
        if self in (FindingKind.DETACHED, FindingKind.CONSTANT_OUTPUT, FindingKind.NOT_OBSERVED):
            return Severity.WARNING
        return Severity.ERROR


_INFOS = (
    FindingKind.SIMULATOR_ONLY,
    FindingKind.NEEDS_ESTIMATOR,
    FindingKind.UNKNOWN_SOURCE,
    FindingKind.UNUSED,
    FindingKind.FROZEN,
    FindingKind.CARRIED,
    FindingKind.DROPPED_CHECK,
    FindingKind.NO_RESET_SEEN,
    FindingKind.NOT_RESTORED,
)


@dataclass(frozen=True)
class Finding:
    """One finding of a check.

    Attributes:
        kind: The kind of the finding.
        severity: The severity of the finding.
        tensor: The tensor, port or attribute, as a Python expression.
        where: File and line of the user code that reads or calls it; empty if unknown.
        what: What happened.
        suggestion: Code to paste, in which `env` and `actor` are the arguments of the check. A Python comment if code
            alone cannot fix it. Empty if nothing needs to be done.
    """

    kind: FindingKind
    severity: Severity
    tensor: str
    where: str
    what: str
    suggestion: str

    @classmethod
    def of(cls, kind: FindingKind, tensor: str, what: str, where: str = "", suggestion: str = "") -> "Finding":
        """Create a finding with the default severity of its kind."""
        return cls(kind, kind.usual_severity, tensor, where, what, suggestion)
