"""Meaning of ports for a robot, from the metadata of components and groups and from known port names."""

import dataclasses
import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from exploy.contract import InputSource, Port, PortKind
from exploy.contract.on_stop import OnStopValue, validated_on_stop
from exploy.errors import MetadataError

_GAINS = ("stiffness", "damping")
_LISTED = ("names", *_GAINS)  # lists with one item for each element
_ON_STOP = "on_stop"
_SOURCE = "source"
_OWN_KINDS = (PortKind.STEP_COUNT, PortKind.MEMORY, PortKind.OBSERVATIONS, PortKind.ACTIONS)
_WORD = r"[a-zA-Z0-9_]+"
_KINDS = {
    rf"obj\.{_WORD}\.joints\.pos": "joint_position",
    rf"obj\.{_WORD}\.joints\.vel": "joint_velocity",
    rf"(obj|sensor\.imu)\.(.*\.)?{_WORD}\.pos_b_rt_w_in_w": "position",
    rf"(obj|sensor\.imu)\.(.*\.)?{_WORD}\.w_Q_b": "orientation",
    rf"(obj|sensor\.imu)\.(.*\.)?{_WORD}\.lin_vel_b_rt_w_in_b": "linear_velocity",
    rf"(obj|sensor\.imu)\.(.*\.)?{_WORD}\.ang_vel_b_rt_w_in_b": "angular_velocity",
    rf"sensor\.ray_caster\.{_WORD}\.height": "height",
    rf"cmd\.{_WORD}\.{_WORD}": "command",
    rf"output\.joint_targets\.{_WORD}\.pos": "joint_position_target",
    rf"output\.joint_targets\.{_WORD}\.vel": "joint_velocity_target",
    rf"output\.joint_targets\.{_WORD}\.effort": "joint_effort_target",
    rf"output\.se2_velocity\.{_WORD}": "velocity_target",
}


def with_semantics(port: Port, metadata: Mapping[str, Any], *, is_output: bool = True) -> Port:
    """Add the metadata of a port's component and of its enclosing groups to a port.

    Metadata of the component has priority over metadata of its groups. Element names and gains of a group apply to
    the ports whose last dimension has the same number of elements.

    Args:
        port: The port, with name, dtype and shape.
        metadata: All metadata, by the name of the component, group or prefix.
        is_output: Whether it is the port of an Output. Only these have stop values, and only Inputs have a source.

    Raises:
        MetadataError: If the metadata of the component does not fit the port, or the metadata of a group is invalid.
    """
    width = port.shape[-1] if port.shape else None
    own = _described(metadata.get(port.name), width)
    found = _read(port, own, width)
    found["kind"] = found["kind"] or _kind_of_name(port.name)
    on_stop = own.get(_ON_STOP)
    if on_stop is not None and not is_output:
        raise MetadataError(f"The Input {port.name!r} has on_stop in its metadata. Only Outputs take it. Remove it.")
    source = own.get(_SOURCE)
    if source is not None and is_output:
        raise MetadataError(f"The Output {port.name!r} has source in its metadata. Only Inputs take it. Remove it.")
    for group in _groups_of(port.name, metadata, width):
        offered_stop = group.get(_ON_STOP)
        if on_stop is None and (not isinstance(offered_stop, list | tuple) or len(offered_stop) == width):
            on_stop = offered_stop
        source = group.get(_SOURCE) if source is None else source
        fitting = {key: value for key, value in group.items() if key not in _LISTED or _fits(value, width)}
        offered = _read(port, {key: value for key, value in fitting.items() if key != "limits"}, width)
        gains = {**(offered["gains"] or {}), **(found["gains"] or {})} or None
        found |= {key: value for key, value in offered.items() if found[key] is None and value is not None}
        found["gains"] = gains
    finite = own.get("finite", port.finite)
    if not isinstance(finite, bool):
        raise _refusal(port, "finite", "True or False", finite)
    port = dataclasses.replace(port, **found, finite=finite)
    if is_output:
        return dataclasses.replace(port, on_stop=_validated_on_stop(port, on_stop))
    return dataclasses.replace(port, source=_validated_source(port, source))


def _read(port: Port, described: dict[str, Any], width: Any) -> dict[str, Any]:
    """The contract fields of a port from its metadata; None for missing fields."""
    gains = {name: _validated_gain(port, name, described[name], width) for name in _GAINS if name in described}
    return {
        "kind": _validated_kind(port, described.get("kind")),
        "names": _validated_names(port, described.get("names"), width),
        "unit": _validated_text(port, "unit", described.get("unit")),
        "frame": _validated_text(port, "frame", described.get("frame")),
        "limits": _validated_limits(port, described.get("limits"), width),
        "gains": gains or None,
    }


def _described(metadata: Any, width: Any) -> dict[str, Any]:
    """Metadata with the keys of the contract, or an empty dictionary. Robot interfaces name some keys differently."""
    if not isinstance(metadata, Mapping):
        return {}
    described = {key: as_plain(value) for key, value in metadata.items()}
    for word, ours in (("joint_names", "names"), ("type", "kind"), ("target_frame", "frame"), ("range", "limits")):
        if word in described:
            described.setdefault(ours, described[word])
    ranges = described.get("ranges")
    if isinstance(ranges, Mapping) and len(ranges) == width and all(_is_pair(limits) for limits in ranges.values()):
        described.setdefault("names", list(ranges))
        described.setdefault("limits", [list(limits) for limits in ranges.values()])
    return described


def _groups_of(name: str, metadata: Mapping[str, Any], width: Any) -> list[dict[str, Any]]:
    """The metadata of the enclosing groups of a port, innermost first."""
    parts = name.split(".")
    return [_described(metadata.get(".".join(parts[:count])), width) for count in range(len(parts) - 1, 0, -1)]


def _kind_of_name(name: str) -> str | None:
    return next((kind for pattern, kind in _KINDS.items() if re.fullmatch(pattern, name)), None)


def _fits(values: Any, width: Any) -> bool:
    return isinstance(values, list | tuple) and len(values) == width


def _validated_kind(port: Port, kind: Any) -> str | None:
    if kind in _OWN_KINDS:
        raise MetadataError(
            f"The metadata of {port.name!r} has kind = {kind!r}, which the file format reserves for its own ports. "
            "Choose another kind."
        )
    return _validated_text(port, "kind", kind)


def _validated_text(port: Port, key: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _refusal(port, key, "a string", value)
    return value


def _validated_names(port: Port, names: Any, width: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not _fits(names, width) or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise _refusal(port, "names", f"{width} different strings, one for each element", names)
    return tuple(names)


def _validated_gain(port: Port, key: str, values: Any, width: Any) -> tuple[float, ...]:
    if not _fits(values, width) or not all(_is_number(value) for value in values):
        raise _refusal(port, key, f"{width} numbers, one for each element", values)
    return tuple(float(value) for value in values)


def _validated_limits(port: Port, limits: Any, width: Any) -> tuple[Any, ...] | None:
    if limits is None:
        return None
    is_list = isinstance(limits, list | tuple)
    pairs = limits if is_list and any(isinstance(item, list | tuple) for item in limits) else [limits]
    if not all(_is_pair(pair) for pair in pairs) or (pairs is limits and len(limits) != width):
        expected = f"[lowest, highest], or a list of {width} such pairs, one for each element"
        raise _refusal(port, "limits", expected, limits)
    return tuple(tuple(pair) for pair in pairs) if pairs is limits else tuple(limits)


def _validated_on_stop(port: Port, on_stop: Any) -> OnStopValue | None:
    if on_stop is None:
        return None
    try:
        return validated_on_stop(on_stop, np.dtype(port.dtype), port.shape, port.limits)
    except ValueError as error:
        raise MetadataError(f"The metadata of {port.name!r}: {error}.") from None


def _validated_source(port: Port, source: Any) -> str | None:
    if source is None:
        return None
    if not isinstance(source, str) or source not in InputSource.ALL:
        raise _refusal(port, _SOURCE, f"one of {', '.join(map(repr, InputSource.ALL))}", source)
    return source


def as_plain(value: Any) -> Any:
    """Return arrays and numbers of numpy as lists and numbers of Python, and anything else as it is."""
    if isinstance(value, np.ma.MaskedArray):
        return value
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _is_pair(pair: Any) -> bool:
    """Whether this is a pair of a lowest and a highest value, each of which may be None."""
    if not _fits(pair, 2) or not all(value is None or _is_number(value) for value in pair):
        return False
    return None in pair or pair[0] <= pair[1]


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max  # JSON has no Infinity


def _refusal(port: Port, key: str, expected: str, got: Any) -> MetadataError:
    return MetadataError(f"The metadata of {port.name!r} must have {expected} under {key!r}, got {got!r}.")
