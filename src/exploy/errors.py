"""Every exception and warning that a user of exploy can meet.

Each message says what was expected, what came instead, and what to do about it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ExployError(Exception):
    """Base of all errors raised by exploy."""


class ComponentError(ExployError, ValueError):
    """A component (Input, Output, Memory, Group, Connection) is not usable as it was given."""


class DuplicateNameError(ExployError, AssertionError, KeyError):
    """Two components, groups or connections have the same name or are the same object.

    The documentation promises an AssertionError where components are added and a KeyError where names
    are checked; this is both.
    """

    def __str__(self) -> str:
        return str(self.args[0])


class ReservedNameError(ComponentError):
    """An Input or Output has a name that the file format uses for itself."""


class ActorError(ExployError, ValueError):
    """The actor cannot be exported as it is (no state to register, an output that does not fit)."""


class PolicyError(ActorError):
    """A policy of a training library cannot be taken out of it as it is."""


class CheckpointError(ExployError, ValueError):
    """A checkpoint cannot be read, is of another library, or does not hold what a policy needs."""


class InvalidEnvironmentError(ExployError, ValueError):
    """The environment breaks the interface of ExportableEnvironment."""


class CaptureError(ExployError, RuntimeError):
    """The pipeline cannot be captured as a graph."""


class DataDependentError(CaptureError):
    """A traced value left torch: a branch, a number, an array or a size depends on an input."""


class RandomOperatorError(CaptureError):
    """The pipeline draws random numbers where a file must not, or the actor does without being allowed to."""


class UnregisteredStateError(ExployError, RuntimeError):
    """A strict export found errors in the environment; `diagnosis`, an `exploy.Diagnosis`, has all findings."""

    def __init__(self, message: str, diagnosis: Any):
        super().__init__(message)
        self.diagnosis = diagnosis


class AliasError(CaptureError):
    """Registered tensors share memory in a way that no file can express."""


class LoweringError(ExployError, RuntimeError):
    """The captured program has no form in the target format."""


class BackendError(ExployError, ValueError):
    """There is no such backend, or it cannot be used here."""


class MetadataError(ExployError, ValueError):
    """Metadata cannot be stored as JSON, or two sources use the same key."""


class VerificationError(ExployError, RuntimeError):
    """The exported file does not compute what the captured program or the environment computes."""


class FileFormatError(ExployError, ValueError):
    """A file is not an exploy file, or does not fit what is asked of it."""


class ContractError(FileFormatError):
    """A file's contract is missing, cannot be understood, or does not fit the file or the onnxruntime at hand."""


class RuntimeInputError(ExployError, ValueError):
    """Inputs given to a session are unknown, missing, or of the wrong shape or type."""


class Guard(StrEnum):
    """What trips."""

    INPUTS = "inputs"
    FINITE = "finite"
    LIMITS = "limits"
    STALE = "stale"
    RATE = "rate"
    OVERRUN = "overrun"
    EXECUTION = "execution"


@dataclass(frozen=True)
class Fault:
    """A guard that tripped: which one, at which tick, on which port if on one, and why."""

    guard: Guard
    tick: int
    message: str
    port: str | None = None

    def __str__(self) -> str:
        return f"tick {self.tick}: {self.message}"


class FaultError(ExployError, RuntimeError):
    """A guard of the controller tripped; `fault` says which, and the controller stands still until it is reset."""

    def __init__(self, message: str, fault: Fault):
        super().__init__(message)
        self.fault = fault


class FactoryError(ExployError, ValueError):
    """The function that is to make an environment and its actor does not."""


class ViewError(ExployError, RuntimeError):
    """A graph cannot be shown, or a report not be written."""


class ThreadError(ExployError, RuntimeError):
    """A controller was used from a second thread."""


class LogError(ExployError, ValueError):
    """A log cannot be written or read."""


class OutputPathError(ExployError, OSError):
    """The file cannot be written where it should go."""


class ExployWarning(UserWarning):
    """Something that the user can act on, but that does not stop the work."""


class FrozenTensorWarning(ExployWarning):
    """The file keeps tensors with their present value that nobody has declared to be constants."""


class InferredMemoryWarning(ExployWarning):
    """An export has registered tensors as Memories because it was asked to."""


class UnusedInputWarning(ExployWarning):
    """A registered Input does not influence any output and is left out of the file."""


class WeakerCheckWarning(ExployWarning):
    """A check of the exported file could be made at the present values of the inputs only."""
