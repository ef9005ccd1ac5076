"""The parts of the contract."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from exploy.contract.arrays import NumberType, StoredArray, decode_array, digest
from exploy.contract.field_schema import (
    ALL_DIFFERENT,
    NOT_EMPTY,
    REQUIRED,
    Count,
    NotNegative,
    Part,
    Size,
    at_most,
    between,
    keywords,
    one_of,
)
from exploy.contract.limits import MAX_DIMENSIONS, MAX_TRACE_TICKS
from exploy.contract.on_stop import ON_STOP_WORDS, validated_on_stop

METADATA_KEY = "exploy.contract"
FORMAT_VERSION = "1.0"
STEP_COUNT = "ctx.step_count"
NO_DIGEST = "0" * 64

Limits = tuple[float | None, float | None]
LimitsOfElements = Annotated[tuple[Limits, ...], NOT_EMPTY]
OnStop = float | Annotated[tuple[float, ...], NOT_EMPTY] | Annotated[str, one_of(*ON_STOP_WORDS)]


class PortKind:
    """Port kinds with a meaning in the file format. All other kinds describe robot data and are free text."""

    STEP_COUNT = "step_count"
    MEMORY = "memory"
    OBSERVATIONS = "observations"
    ACTIONS = "actions"
    IS_INIT = "is_init"

    FILLED_BY_THE_CONTROLLER = (STEP_COUNT, MEMORY, IS_INIT)


class InputSource:
    """Where an input comes from on a robot."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    SIMULATOR = "simulator"

    ALL = (MEASURED, ESTIMATED, SIMULATOR)


@dataclass(frozen=True)
class Port(Part):
    """A named input or output tensor of the file.

    Args:
        name: Name of the port.
        dtype: Numpy dtype of its elements.
        shape: Its shape. A string is the name of a size that is chosen when the file is loaded.
        kind: Its role. step_count: the tick number, or the tick number modulo the decimation; it only selects the path.
            memory: fed back. is_init: true at the first tick after a reset, set by the controller. observations,
            actions: of the policy. All other kinds are free text.
        names: Names of the elements along the last dimension, such as joint names.
        unit: Unit of the values.
        limits: Minimum and maximum: one pair for all elements, or one pair per element along the last dimension. None
            (null in JSON) means no bound.
        frame: Reference frame of the values.
        gains: One number per element along the last dimension, by the name of the gain, such as `stiffness`.
        finite: False if the port may have non-finite values, such as those of a range sensor; true if missing.
        on_stop: What an output is left with when the robot is stopped: "hold" for its last value, "zero", one number
            for all elements, or one number per element along the last dimension. If missing, kind and unit decide.
        source: Where an input comes from on a robot. measured: a sensor gives it. estimated: an estimator must compute
            it. simulator: only a simulator knows it, so that a robot cannot have it. Missing if that is not told.
        unknown: Fields that this version does not know.
    """

    name: str
    dtype: NumberType
    shape: Annotated[tuple[Size | str, ...], at_most(MAX_DIMENSIONS)]
    kind: str | None = None
    names: Annotated[tuple[str, ...], ALL_DIFFERENT] | None = None
    unit: str | None = None
    limits: Limits | LimitsOfElements | None = None
    frame: str | None = None
    gains: Mapping[str, tuple[float, ...]] | None = None
    finite: bool = True
    on_stop: OnStop | None = None
    source: Annotated[str, one_of(*InputSource.ALL)] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def fixed_shape(self, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """Return the shape with values for its named sizes; 1 for each size that is not given."""
        return tuple(size if isinstance(size, int) else (sizes or {}).get(size, 1) for size in self.shape)

    @property
    def least_bytes(self) -> int:
        """Bytes of its values, with 1 for each named size."""
        return math.prod(self.fixed_shape()) * np.dtype(self.dtype).itemsize

    def check(self) -> None:
        """Check that names, per-element limits and gains have the length of the last dimension, and `on_stop`.

        Raises:
            ValueError: If they do not, or the stop values do not fit the port.
        """
        last = self.shape[-1] if self.shape else None
        limits = self.limits if self.limits and isinstance(self.limits[0], tuple) else None
        for what, values in (("names", self.names), ("limits", limits), *(self.gains or {}).items()):
            if values is not None and len(values) != last:
                raise ValueError(f"{len(values)} {what} for a port of shape {list(self.shape)}")
        if self.on_stop is not None:
            validated_on_stop(self.on_stop, np.dtype(self.dtype), self.shape, self.limits)


@dataclass(frozen=True)
class StoredMemory(Part):
    """A value that is fed back from an output to an input at the next call.

    Args:
        name: Name of the memory.
        input: The input that reads it.
        output: The output that writes it.
        initial: Its initial value.
        carried: True if it was not registered, but is passed from a policy step to its sub-steps.
        written_by_observations: True if computing observations changes it.
        unknown: Fields that this version does not know.
    """

    name: str
    input: str
    output: str
    initial: StoredArray
    carried: bool = field(default=False, metadata=REQUIRED)
    written_by_observations: bool = field(default=False, metadata=REQUIRED)
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def initial_value(self) -> np.ndarray:
        """Return the initial value of this memory."""
        return decode_array(self.initial)


@dataclass(frozen=True)
class UsedSubstitute(Part):
    """Code that was captured in the place of code that cannot be.

    Args:
        original: The code that the environment calls, as `module.name`.
        replacement: The code that the file contains instead, as `module.name`.
        comparisons: Number of calls in which both were compared on random data before the export.
        largest_error: The largest difference between their results, which is that of rounding.
        unknown: Fields that this version does not know.
    """

    original: str
    replacement: str
    comparisons: Count
    largest_error: NotNegative
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Frozen(Part):
    """A tensor of the environment that is stored in the file with its value at export.

    Args:
        name: Path to the tensor.
        dtype: Numpy dtype of its elements.
        shape: Its shape.
        sha256: Hash of the bytes of its elements, in row-major order.
        elements: The frozen positions in the flattened tensor, if ports cover the other positions.
        declared: Name under which it was declared as a constant.
        unknown: Fields that this version does not know.
    """

    name: str
    dtype: NumberType
    shape: Annotated[tuple[Size, ...], at_most(MAX_DIMENSIONS)]
    sha256: str
    elements: list[Size] | None = None
    declared: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def changed_elements(self, now: np.ndarray) -> np.ndarray | None:
        """Return flags for all frozen elements if value, shape or dtype has changed since the export, else None."""
        frozen = slice(None) if self.elements is None else self.elements
        same_form = now.shape == self.shape and str(now.dtype) == self.dtype
        if same_form and digest(now if self.elements is None else now.reshape(-1)[self.elements]) == self.sha256:
            return None
        flags = np.zeros(math.prod(self.shape), dtype=bool)
        flags[frozen] = True
        return flags

    def check(self) -> None:
        """Check that the frozen positions are within the tensor.

        Raises:
            ValueError: If they are not.
        """
        if self.elements and max(self.elements) >= math.prod(self.shape):
            raise ValueError("the positions of frozen elements are out of range")


@dataclass(frozen=True)
class ObservationTerm(Part):
    """Consecutive elements of the observation that belong together.

    Args:
        name: Name of the term.
        start: Position of its first element.
        stop: Position after its last element.
        port: The port of the group of observations that it belongs to; missing if there are no groups.
        unknown: Fields that this version does not know.
    """

    name: str
    start: Size
    stop: Size
    port: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Check that the term does not end before it starts.

        Raises:
            ValueError: If it does.
        """
        if self.start > self.stop:
            raise ValueError(f"a term cannot start at {self.start} and stop at {self.stop}")


@dataclass(frozen=True)
class GitCommit(Part):
    """The commit of the environment's code.

    Args:
        commit: Its hash.
        changed: True if tracked files differed from the commit.
        unknown: Fields that this version does not know.
    """

    commit: str
    changed: bool
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance(Part):
    """The origin of a file: what created it, when, and from what.

    Args:
        versions: Versions of the software that created the file.
        date: Creation time, in UTC.
        model_source: Origin of the policy, as given by the user.
        opset: Version of the ONNX operators.
        ir_version: Version of the ONNX format.
        git: Commit of the environment's code, and whether tracked files were changed.
        unknown: Fields that this version does not know.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    date: Annotated[str, keywords(format="date-time")] | None = None
    model_source: Mapping[str, Any] = field(default_factory=dict)
    opset: Count | None = None
    ir_version: Count | None = None
    git: GitCommit | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GoldenTrace(Part):
    """Inputs and outputs of the torch program for some ticks after a reset.

    The first dimension of each array is the tick.

    Args:
        ticks: Number of ticks.
        inputs: Input values, by port.
        outputs: Output values, by port, without memories and outputs that depend on random numbers.
        tolerance: Maximum error of outputs: absolute, and relative to the largest element.
        unknown: Fields that this version does not know.
    """

    ticks: Annotated[int, between(1, MAX_TRACE_TICKS, "positive integer")]
    inputs: Mapping[str, StoredArray]
    outputs: Mapping[str, StoredArray]
    tolerance: NotNegative
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def input_arrays(self) -> dict[str, np.ndarray]:
        """Decode the input values, by port."""
        return {name: decode_array(array) for name, array in self.inputs.items()}

    def output_arrays(self) -> dict[str, np.ndarray]:
        """Decode the output values, by port."""
        return {name: decode_array(array) for name, array in self.outputs.items()}

    def check(self) -> None:
        """Check that the first dimension of every array has one entry per tick.

        Raises:
            ValueError: If it does not.
        """
        if any(array["shape"][:1] != [self.ticks] for array in (*self.inputs.values(), *self.outputs.values())):
            raise ValueError(f"an array of the trace does not have {self.ticks} ticks")
