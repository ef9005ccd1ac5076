"""Compares two files and lists what changed, for the integration on the robot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from exploy.comparison import absolute_error
from exploy.contract import Contract, GoldenTrace, Port, PortKind, StoredMemory, digest
from exploy.contract.formatting import format_terms
from exploy.runtime.controller import Controller
from exploy.runtime.selftest import run_ticks

_PORT_FIELDS = ("dtype", "shape", "kind", "unit", "frame", "limits", "gains", "finite", "on_stop", "source")


@dataclass(frozen=True)
class Change:
    """One difference between two files; `old` or `new` is None if it is missing in that file."""

    what: str
    old: Any
    new: Any


@dataclass(frozen=True)
class FileDiff:
    """All differences between two files.

    Args:
        interface: Ports, element names and their order, gains, limits, stop values, sources of inputs, rates. The
            robot must be adapted to these.
        other: Memories, constants, observations, provenance.
        behaviour: For each trace, the largest difference of each output; None if the files cannot be compared.
    """

    interface: list[Change]
    other: list[Change]
    behaviour: dict[str, dict[str, float] | None] = field(default_factory=dict)


def compare_files(old: Controller, new: Controller) -> FileDiff:
    """Compare the contracts of two files, and their outputs on the golden traces of both."""
    return FileDiff(
        interface=_interface_changes(old.contract, new.contract),
        other=_other_changes(old.contract, new.contract),
        behaviour={
            "trace of the old file": _distances(old, new, old.contract.trace),
            "trace of the new file": _distances(old, new, new.contract.trace),
        },
    )


def _interface_changes(old: Contract, new: Contract) -> list[Change]:
    changes = _changed(_rates(old), _rates(new))
    for direction, before, after in (("input", old.inputs, new.inputs), ("output", old.outputs, new.outputs)):
        olds, news = ({port.name: port for port in ports if _is_wired(port)} for ports in (before, after))
        for name in [*olds, *(name for name in news if name not in olds)]:
            changes += _port_changes(f"{direction} {name}", olds.get(name), news.get(name))
    return changes


def _rates(contract: Contract) -> dict[str, Any]:
    return {"decimation": contract.decimation, "sim_dt": contract.sim_dt}


def _is_wired(port: Port) -> bool:
    return port.kind not in (PortKind.MEMORY, PortKind.STEP_COUNT, PortKind.IS_INIT)


def _port_changes(what: str, old: Port | None, new: Port | None) -> list[Change]:
    if old is None or new is None:
        return [Change(what, old and _described(old), new and _described(new))]
    changes = _changed(*({f"{what}: {name}": getattr(port, name) for name in _PORT_FIELDS} for port in (old, new)))
    if old.names != new.names:
        is_order = old.names is not None and new.names is not None and set(old.names) == set(new.names)
        changes.append(
            Change(f"{what}: {'order of elements' if is_order else 'names of elements'}", old.names, new.names)
        )
    return changes


def _described(port: Port) -> str:
    return f"{port.dtype} {list(port.shape)}"


def _other_changes(old: Contract, new: Contract) -> list[Change]:
    return _changed(_inside(old), _inside(new))


def _inside(contract: Contract) -> dict[str, Any]:
    """Contents of a file that are not part of its interface."""
    made = contract.provenance
    inside: dict[str, Any] = {f"memory {memory.name}": _start(memory) for memory in contract.memories}
    inside |= {f"constant {frozen.name}": frozen.sha256[:12] for frozen in contract.frozen}
    inside |= {f"substitute for {item.original}": item.replacement for item in contract.substitutes or ()}
    inside |= {f"version of {name}": version for name, version in made.versions.items()}
    inside |= format_terms(contract)
    inside["model source"] = dict(made.model_source) or None
    inside["git commit"] = made.git and made.git.commit[:12]
    return inside


def _start(memory: StoredMemory) -> str:
    value = memory.initial_value()
    return f"{value.dtype} {list(value.shape)}, starts from {digest(value)[:12] if value.any() else 'zeros'}"


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    names = [*old, *(name for name in new if name not in old)]
    return [Change(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def _distances(old: Controller, new: Controller, trace: GoldenTrace | None) -> dict[str, float] | None:
    """The largest difference of each output that both files have; None if the traced inputs do not fit a file."""
    if trace is None:
        return None
    inputs = trace.input_arrays()
    engines = [controller.new_engine() for controller in (old, new)]
    wanted = {name: (values.dtype, values.shape[1:]) for name, values in inputs.items()}
    if any({name: (array.dtype, array.shape) for name, array in engine.inputs.items()} != wanted for engine in engines):
        return None
    first, second = (engine.outputs for engine in engines)
    random = {*old.contract.random_outputs, *new.contract.random_outputs}
    common = [name for name in first if name in second and first[name].shape == second[name].shape]
    worst = {name: 0.0 for name in common if name not in random}
    for _ in zip(*(run_ticks(engine, inputs, trace.ticks) for engine in engines), strict=True):
        for name in worst:
            error = absolute_error(np.asarray(first[name]), np.asarray(second[name]))
            worst[name] = max(worst[name], float(error.max(initial=0.0)))
    return worst
