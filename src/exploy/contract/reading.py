"""Reads the JSON document of a contract back, refusing what does not have the form of one."""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from exploy.contract.arrays import decode_array
from exploy.contract.parts import (
    FORMAT_VERSION,
    NO_DIGEST,
    Frozen,
    GitCommit,
    GoldenTrace,
    Limits,
    Memory,
    ObservationTerm,
    Port,
    Provenance,
)
from exploy.errors import ContractError

_DIGEST = re.compile("[0-9a-f]{64}")
_Part = TypeVar("_Part")


def contract_fields(kind: type, document: Any) -> dict[str, Any]:
    """The fields of the contract that a document describes, by name.

    Args:
        kind: The class of the contract.
        document: The parsed JSON.

    Raises:
        ContractError: If it has another major version.
        ValueError, KeyError, TypeError, AttributeError: If it does not have the form of a contract.
    """
    version = _text(document["format_version"])
    if version.split(".")[0] != FORMAT_VERSION.split(".")[0]:
        raise ContractError(
            f"The file's contract has version {version}; this exploy reads {FORMAT_VERSION}. "
            "Update exploy, or export the file again with this version."
        )
    return {
        "decimation": _positive(document["decimation"]),
        "inputs": _several(_port, document["inputs"]),
        "outputs": _several(_port, document["outputs"]),
        "memories": _several(_memory, document["memories"]),
        "frozen": _several(_frozen, document["frozen"]),
        "unused_inputs": _texts(document["unused_inputs"]),
        "sub_step_inputs": {_text(name): list(_texts(inputs)) for name, inputs in document["sub_step_inputs"].items()},
        "observation_names": _texts(document["observation_names"]),
        "observation_terms": _several(_term, document.get("observation_terms", [])),
        "random_outputs": _texts(document.get("random_outputs", [])),
        "sim_dt": _optional(_seconds, document.get("sim_dt")),
        "provenance": _provenance(document.get("provenance", {})),
        "trace": _optional(_trace, document.get("trace")),
        "backend": _text(document.get("backend", "onnx")),
        "format_version": version,
        "unknown": _unknown(kind, document),
        "digest": _digest(document.get("digest", NO_DIGEST)),
    }


def _port(document: Any) -> Port:
    names = _optional(_texts, document.get("names"))
    shape = tuple(_size_or_name(size) for size in _listed(document["shape"]))
    last = shape[-1] if shape else None
    if names is not None and len(names) != last:
        raise ValueError(f"{len(names)} names for a port of shape {list(shape)}")
    if names is not None and len(set(names)) != len(names):
        raise ValueError(f"names that are not all different: {', '.join(names)}")
    return Port(
        name=_text(document["name"]),
        dtype=_dtype(document["dtype"]),
        shape=shape,
        kind=_optional(_text, document.get("kind")),
        names=names,
        unit=_optional(_text, document.get("unit")),
        limits=_optional(lambda limits: _limits(limits, last), document.get("limits")),
        frame=_optional(_text, document.get("frame")),
        gains=_optional(lambda gains: _gains(gains, last), document.get("gains")),
        finite=_flag(document.get("finite", True)),
        unknown=_unknown(Port, document),
    )


def _memory(document: Any) -> Memory:
    decode_array(document["initial"])
    return Memory(
        name=_text(document["name"]),
        input=_text(document["input"]),
        output=_text(document["output"]),
        initial=document["initial"],
        carried=_flag(document["carried"]),
        written_by_observations=_flag(document["written_by_observations"]),
        unknown=_unknown(Memory, document),
    )


def _frozen(document: Any) -> Frozen:
    shape = tuple(_size(size) for size in _listed(document["shape"]))
    elements = document.get("elements")
    if elements is not None and not all(type(item) is int and 0 <= item < math.prod(shape) for item in elements):
        raise ValueError("the positions of frozen elements are out of range")
    return Frozen(
        name=_text(document["name"]),
        dtype=_dtype(document["dtype"]),
        shape=shape,
        sha256=_text(document["sha256"]),
        elements=elements,
        declared=_optional(_text, document.get("declared")),
        unknown=_unknown(Frozen, document),
    )


def _term(document: Any) -> ObservationTerm:
    start, stop = _size(document["start"]), _size(document["stop"])
    if start > stop:
        raise ValueError(f"a term cannot go from {start} to {stop}")
    return ObservationTerm(_text(document["name"]), start, stop, _unknown(ObservationTerm, document))


def _provenance(document: Any) -> Provenance:
    source = document.get("model_source", {})
    if not isinstance(source, dict):
        raise TypeError(f"{source!r} is no dictionary")
    return Provenance(
        versions={_text(name): _text(value) for name, value in document.get("versions", {}).items()},
        date=_optional(_text, document.get("date")),
        model_source=source,
        opset=_optional(_positive, document.get("opset")),
        ir_version=_optional(_positive, document.get("ir_version")),
        git=_optional(_commit, document.get("git")),
        unknown=_unknown(Provenance, document),
    )


def _commit(document: Any) -> GitCommit:
    return GitCommit(_text(document["commit"]), _flag(document["changed"]), _unknown(GitCommit, document))


def _trace(document: Any) -> GoldenTrace:
    ticks = _positive(document["ticks"])
    for array in (*document["inputs"].values(), *document["outputs"].values()):
        if decode_array(array).shape[:1] != (ticks,):
            raise ValueError(f"an array of the trace does not have {ticks} ticks")
    return GoldenTrace(
        ticks=ticks,
        inputs=document["inputs"],
        outputs=document["outputs"],
        tolerance=_number(document["tolerance"]),
        unknown=_unknown(GoldenTrace, document),
    )


def _limits(document: Any, size: Any) -> Limits | tuple[Limits, ...]:
    if not any(isinstance(item, list) for item in _listed(document)):
        return _pair(document)
    if len(document) != size:
        raise ValueError(f"{len(document)} limits for {size} elements")
    return _several(_pair, document)


def _pair(document: Any) -> Limits:
    low, high = _listed(document)
    return _optional(_number, low), _optional(_number, high)


def _gains(document: Any, size: Any) -> dict[str, tuple[float, ...]]:
    gains = {_text(name): tuple(_number(value) for value in _listed(values)) for name, values in document.items()}
    if any(len(values) != size for values in gains.values()):
        raise ValueError(f"gains that are not one for each of {size} elements")
    return gains


def _several(read: Callable[[Any], _Part], documents: Any) -> tuple[_Part, ...]:
    return tuple(read(document) for document in _listed(documents))


def _optional(read: Callable[[Any], _Part], document: Any) -> _Part | None:
    return None if document is None else read(document)


def _unknown(part: type, document: Mapping[str, Any]) -> dict[str, Any]:
    known = {item.name for item in dataclasses.fields(part)}
    return {name: value for name, value in document.items() if name not in known}


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no size")
    return value


def _size_or_name(value: Any) -> int | str:
    return value if isinstance(value, str) else _size(value)


def _positive(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{value!r} is no positive whole number")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    return float(value)


def _seconds(value: Any) -> float:
    if _number(value) <= 0:
        raise ValueError(f"{value!r} are no seconds between two ticks")
    return _number(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is no flag")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no string")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(_text(value) for value in _listed(values))


def _dtype(value: Any) -> str:
    dtype = np.dtype(_text(value))
    if dtype.kind not in "fiubc":
        raise ValueError(f"{value!r} is no type of numbers")
    return str(dtype)


def _digest(value: Any) -> str:
    if not _DIGEST.fullmatch(_text(value)):
        raise ValueError(f"{value!r} is no digest")
    return str(value)
