"""The contract and its JSON document."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from exploy.contract.field_schema import (
    NOT_EMPTY,
    REQUIRED,
    STORED,
    NotNegative,
    Part,
    Seconds,
    between,
    keywords,
    matching,
    shown,
)
from exploy.contract.json_text import parse_json
from exploy.contract.limits import MAX_CONTRACT_BYTES, MAX_DECIMATION, MAX_PORT_BYTES, MAX_PORTS
from exploy.contract.parts import (
    FORMAT_VERSION,
    METADATA_KEY,
    NO_DIGEST,
    Frozen,
    GoldenTrace,
    ObservationTerm,
    Port,
    PortKind,
    Provenance,
    StoredMemory,
    UsedSubstitute,
)
from exploy.contract.reading import read_part
from exploy.errors import ContractError
from exploy.tables import Table
from exploy.text import printable

_MAJOR_VERSION = FORMAT_VERSION.split(".")[0]


@dataclass(frozen=True)
class Contract(Part):
    """The contract of an exported file, which describes how to run it.

    Args:
        decimation: Ticks per policy step. Ticks at multiples of it run the policy, all others are sub-steps. 1 if there
            is only one rate.
        inputs: All inputs, in the order of the file.
        outputs: All outputs, in the order of the file.
        memories: Which output is fed back to which input, and the initial value.
        frozen: Tensors that are stored with their value at export.
        unused_inputs: Registered Inputs that no output depends on. They are not in the file.
        sub_step_inputs: For each output of a sub-step, the Inputs that it is computed from.
        observation_names: One name for each element of the observation. The ports of groups have their own names.
        observation_terms: The terms of the observation with their slices.
        random_outputs: Outputs that depend on random numbers.
        coarse_outputs: For outputs that are computed in types coarser than float32, the machine epsilon of the coarsest
            one; missing if there are none.
        substitutes: Code that stands for code that cannot be captured; missing if there is none.
        sim_dt: Seconds between two ticks, if known.
        provenance: Where the file comes from.
        trace: Inputs and expected outputs for testing the file; missing if it was disabled or too large.
        backend: The backend that runs the file: "onnx", "torch_export", "aot_inductor", "c", or one from another
            package; "onnx" if missing.
        program: SHA-256 of a program in C, which its header and its library have as well; missing for other backends.
        format_version: Major and minor version of this document.
        unknown: Fields that this version does not know.
        digest: SHA-256, in hexadecimal, of all bytes of the file except these 64. It is the last property of the
            document, so it ends 2 bytes before the end of the metadata value.
    """

    decimation: Annotated[int, between(1, MAX_DECIMATION, "positive integer")]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    memories: tuple[StoredMemory, ...]
    frozen: tuple[Frozen, ...] = field(default=(), metadata=REQUIRED)
    unused_inputs: tuple[str, ...] = field(default=(), metadata=REQUIRED)
    sub_step_inputs: Mapping[str, list[str]] = field(default_factory=dict, metadata=REQUIRED)
    observation_names: tuple[str, ...] = field(default=(), metadata=REQUIRED)
    observation_terms: tuple[ObservationTerm, ...] = ()
    random_outputs: tuple[str, ...] = ()
    coarse_outputs: Mapping[str, NotNegative] | None = None
    substitutes: Annotated[tuple[UsedSubstitute, ...], NOT_EMPTY] | None = None
    sim_dt: Seconds | None = None
    provenance: Provenance = field(default_factory=Provenance)
    trace: GoldenTrace | None = None
    backend: str = "onnx"
    program: Annotated[str, matching("[0-9a-f]{64}", "digest")] | None = None
    format_version: Annotated[str, keywords(pattern=rf"^{_MAJOR_VERSION}(\.|$)")] = field(
        default=FORMAT_VERSION, metadata=REQUIRED
    )
    unknown: Mapping[str, Any] = field(default_factory=dict)
    digest: Annotated[str, matching("[0-9a-f]{64}", "digest")] = field(default=NO_DIGEST, metadata=STORED)

    @property
    def hz(self) -> float | None:
        """Ticks per second, or None if unknown."""
        return None if self.sim_dt is None else 1 / self.sim_dt

    @property
    def observation_outputs(self) -> tuple[str, ...]:
        """The outputs with observations: `obs`, or one for each group."""
        return tuple(port.name for port in self.outputs if port.kind == PortKind.OBSERVATIONS)

    @property
    def has_sources(self) -> bool:
        """Whether it is told of any input where a robot has it from."""
        return any(port.source is not None for port in self.inputs)

    def element_names(self, port: Port) -> tuple[str, ...]:
        """Return the names of the elements of a port along its last dimension; empty if there are none."""
        if port.names is not None:
            return port.names
        return self.observation_names if port.kind == PortKind.OBSERVATIONS else ()

    def check(self) -> None:
        """Check that ports and memories can be told apart, that a controller can hold them, and who has what.

        Raises:
            ValueError: If two inputs, outputs or memories have the same name, two memories use one port, there are too
                many ports or too large ones, a port that is no output for the robot has `on_stop`, or one that is no
                input from the robot has `source`.
        """
        ports = (*self.inputs, *self.outputs)
        for what, names in (
            ("two inputs with the same name", [port.name for port in self.inputs]),
            ("two outputs with the same name", [port.name for port in self.outputs]),
            ("two memories with the same name", [memory.name for memory in self.memories]),
            ("two memories of one input", [memory.input for memory in self.memories]),
            ("two memories of one output", [memory.output for memory in self.memories]),
        ):
            if (name := _twice(names)) is not None:
                raise ValueError(f"{what}: {shown(name)}")
        if len(ports) > MAX_PORTS:
            raise ValueError(f"{len(ports)} ports are more than {MAX_PORTS}")
        if (size := sum(port.least_bytes for port in ports)) > MAX_PORT_BYTES:
            raise ValueError(f"the ports have {size} bytes, which is more than {MAX_PORT_BYTES}")
        fed_back = {memory.output for memory in self.memories}
        for port in (*self.inputs, *(port for port in self.outputs if port.name in fed_back)):
            if port.on_stop is not None:
                raise ValueError(f"{port.name!r} has on_stop, but is not an output for the robot")
        read_back = {memory.input for memory in self.memories}
        for port in (*self.outputs, *(port for port in self.inputs if port.name in read_back)):
            if port.source is not None:
                raise ValueError(f"{port.name!r} has source, but is not an input from the robot")

    def __str__(self) -> str:
        rows = [("in", port) for port in self.inputs] + [("out", port) for port in self.outputs]
        column = ("source",) if self.has_sources else ()
        table = Table("", "port", "type", "shape", "kind", "unit", *column, "elements")
        for direction, port in rows:
            shape = " x ".join(map(str, port.shape)) or "scalar"
            told = (port.kind or "", port.unit or "", *((port.source or "",) if self.has_sources else ()))
            table.rows.append((direction, port.name, port.dtype, shape, *told, ", ".join(port.names or ())))
        rate = f"{self.hz:g} Hz" if self.hz is not None else "an unknown rate"
        steps = f"policy every {self.decimation} ticks" if self.decimation > 1 else "one rate"
        kept = f"{len(self.memories)} memories, {len(self.frozen)} frozen tensors"
        return f"ticks at {rate}, {steps}; {kept}; backend {printable(self.backend)}\n{table}"

    def to_json(self) -> str:
        """Return the document as it is stored. The digest comes last.

        Raises:
            ValueError: If a number is NaN or infinite."""
        return json.dumps(_document(self), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a document. Fields of a newer minor version are kept in `unknown`.

        Raises:
            ContractError: If it is not a contract of this major version.
        """
        try:
            document = parse_json(text, MAX_CONTRACT_BYTES)
            _require_known_version(document)
            return read_part(cls, document)
        except ContractError:
            raise
        except (ValueError, TypeError) as error:
            raise ContractError(
                f"The metadata {METADATA_KEY!r} is not a contract that this version of exploy can read "
                f"({type(error).__name__}: {error}). Export the file again."
            ) from error


def _twice(names: list[str]) -> str | None:
    """The first name that occurs a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _require_known_version(document: Any) -> None:
    """Check the major version first, because other major versions may have a different structure.

    Raises:
        ContractError: If the document has another major version.
    """
    version = document.get("format_version") if isinstance(document, dict) else None
    if isinstance(version, str) and version.split(".")[0] != _MAJOR_VERSION:
        raise ContractError(
            f"The contract of the file has version {version}, but this exploy reads {FORMAT_VERSION}. "
            "Update exploy, or export the file again with this version."
        )


def _document(part: Any) -> Any:
    """Convert a part of the contract to JSON values: omit fields that are None, and include unknown fields."""
    if isinstance(part, Mapping):
        return {name: _document(value) for name, value in part.items()}
    if isinstance(part, list | tuple):
        return [_document(value) for value in part]
    if not dataclasses.is_dataclass(part):
        return part
    document: dict[str, Any] = {}
    for item in dataclasses.fields(part):
        value = getattr(part, item.name)
        if item.name == "unknown":
            document |= value
        elif value is not None:
            document[item.name] = _document(value)
    return document
