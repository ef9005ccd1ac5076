"""All exceptions and warnings that users of exploy can get.

Each message says what was expected, what was given, and what to do.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from exploy.text import printable


class ExployError(Exception):
    """Base of all errors raised by exploy. Its text is safe to print, whatever names it quotes."""

    def __str__(self) -> str:
        return printable(super().__str__(), lines=True)


class ComponentError(ExployError, ValueError):
    """A component (Input, Output, Memory, Group, Connection) is invalid."""


class DimensionError(ComponentError, IndexError):
    """A tensor does not have the given dimension. Is also an IndexError, as torch raises it."""


class DuplicateNameError(ExployError, AssertionError, KeyError):
    """Two components, groups or connections have the same name or are the same object.

    The documentation specifies an AssertionError when components are added and a KeyError when names
    are checked. This class is both.
    """

    def __str__(self) -> str:
        return printable(str(self.args[0]), lines=True)


class ReservedNameError(ComponentError):
    """An Input or Output has a name that the file format reserves."""


class ActorError(ExployError, ValueError):
    """The actor cannot be exported (for example: no state to register, or an unsupported output)."""


class PolicyError(ActorError):
    """A policy cannot be extracted from its training library."""


class CheckpointError(ExployError, ValueError):
    """A checkpoint cannot be read, belongs to another library, or lacks data that the policy needs."""


class InvalidEnvironmentError(ExployError, ValueError):
    """The environment violates the interface of ExportableEnvironment."""


class CaptureError(ExployError, RuntimeError):
    """The pipeline cannot be captured as a graph."""


class DataDependentError(CaptureError):
    """A traced value was used outside of torch: a branch, number, array or size depends on an input."""


class SubstituteError(CaptureError):
    """A substitute does not compute what the original computes, or could not be compared with it."""


class RandomOperatorError(CaptureError):
    """The pipeline draws random numbers where this is not supported, or the actor does so without permission."""


class UnregisteredStateError(ExployError, RuntimeError):
    """A strict export found errors in the environment. `diagnosis`, an `exploy.Diagnosis`, has all findings."""

    def __init__(self, message: str, diagnosis: Any):
        super().__init__(message)
        self.diagnosis = diagnosis


class AliasError(CaptureError):
    """Registered tensors share memory in a way that a file cannot represent."""


class LoweringError(ExployError, RuntimeError):
    """The captured program cannot be expressed in the target format."""


class CompilerError(LoweringError):
    """There is no compiler of C here, or it does not take a program."""


class BackendError(ExployError, ValueError):
    """A backend does not exist, or cannot be used here."""


class MetadataError(ExployError, ValueError):
    """Metadata cannot be stored as JSON, or two sources use the same key."""


class VerificationError(ExployError, RuntimeError):
    """The exported file computes different values than the captured program or the environment."""


class _ErrorOfOneLine(ExployError):
    """An error that quotes text of files. A line break in it cannot pretend to be another message."""

    def __str__(self) -> str:
        return super().__str__().replace("\n", " ")


class FileFormatError(_ErrorOfOneLine, ValueError):
    """A file is not an exploy file, or does not support the requested operation."""


class ContractError(FileFormatError):
    """A file's contract is missing, invalid, or does not match the file or the installed onnxruntime."""


class SignatureError(ContractError):
    """A file is not signed by a trusted key, or a key or signature cannot be read or made."""


class RuntimeInputError(_ErrorOfOneLine, ValueError):
    """Inputs or options are unknown, missing, or have an invalid value, shape or dtype."""


class Guard(StrEnum):
    """The guards of a controller."""

    INPUTS = "inputs"
    FINITE = "finite"
    LIMITS = "limits"
    STALE = "stale"
    RATE = "rate"
    OVERRUN = "overrun"
    EXECUTION = "execution"


@dataclass(frozen=True)
class Fault:
    """A guard that tripped: which guard, at which tick, on which port (None if no single port), and why."""

    guard: Guard
    tick: int
    message: str
    port: str | None = None

    def __post_init__(self) -> None:
        """Make the message safe to print, whatever names it quotes."""
        object.__setattr__(self, "message", printable(self.message))

    def __str__(self) -> str:
        return f"tick {self.tick}: {self.message}"


class FaultError(_ErrorOfOneLine, RuntimeError):
    """A guard of the controller tripped. `fault` says which. The controller is stopped until it is reset."""

    def __init__(self, message: str, fault: Fault):
        super().__init__(message)
        self.fault = fault


class FactoryError(ExployError, ValueError):
    """The factory function for environment and actor, or a command line option, is invalid."""


class ViewError(ExployError, RuntimeError):
    """A graph cannot be shown, or a report cannot be written."""


class ThreadError(ExployError, RuntimeError):
    """A controller was used from a second thread."""


class LogError(_ErrorOfOneLine, ValueError):
    """A log cannot be written or read."""


class OutputPathError(ExployError, OSError):
    """The file cannot be written to this path."""


class DiscoveryError(ExployError, ValueError):
    """What a discovery was told is not valid, such as an Output that is no tensor."""


class ExployWarning(UserWarning):
    """Base of all warnings from exploy. The user can act on it, but the work continues."""


class FrozenTensorWarning(ExployWarning):
    """The file stores the current values of tensors that were not declared as constants."""


class InferredMemoryWarning(ExployWarning):
    """An export registered tensors as Memories, as requested."""


class DroppedCheckWarning(ExployWarning):
    """The environment checks values and raises or prints, such as with `assert`. The file does not."""


class UnusedInputWarning(ExployWarning):
    """A registered Input does not influence any output and is left out of the file."""


class UnreadGroupWarning(ExployWarning):
    """The actor does not read a group of observations, which is left out of the file."""


class UnusedSubstituteWarning(ExployWarning):
    """The environment does not call the original of a substitute, so that the file contains nothing of it."""


class IncompleteDiscoveryWarning(ExployWarning):
    """A discovery has left something open, so that what it has registered may not be enough."""


class SensorBiasWarning(ExployWarning):
    """A simulated bias of sensors is left out of the file."""


class RandomizedConstantWarning(ExployWarning):
    """The file has a constant that an event of the simulator has drawn at random."""


class NoResetSeenWarning(ExployWarning):
    """No reset of the environment was seen, so the start values of memories are their current values."""


class NotRestoredWarning(ExployWarning):
    """An export changed state that it could not restore, or there is state that it could not look at."""


class WeakerCheckWarning(ExployWarning):
    """The exported file could only be checked with the current values of the inputs."""
