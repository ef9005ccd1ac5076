"""Follows indexing with a 0-d tensor that is traced, such as `ring[pointer]`.

torch reads such an index as a number, and returns a view. A recording needs an index tensor of one element instead,
which returns a copy. So code that would notice the difference is refused.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from exploy.capture.recording import Recording, mutated_arguments
from exploy.errors import DataDependentError
from exploy.live.geometry import Geometry
from exploy.live.location import calling_line


@dataclass
class PointerRead:
    """A copy of the elements at a traced position, which would be a view in torch.

    Attributes:
        copy: The copy.
        source: The memory that it was copied from.
        node: The node of the copy.
        where: The line of user code.
        stores: Nodes after which the copy has been written back.
    """

    copy: torch.Tensor
    source: Geometry
    node: fx.Node
    where: str
    stores: list[fx.Node]


def has_pointer(recording: Recording, name: str, args: Any) -> bool:
    """Whether a call is an indexing of a tensor with a traced 0-d integer."""
    if name not in ("__getitem__", "__setitem__") or not isinstance(args[0], torch.Tensor):
        return False
    return any(_is_pointer(recording, item) for item in _items(args[1]))


def at_pointer(recording: Recording, name: str, args: Any) -> Any:
    """Read or write at a traced position."""
    items = _items(args[1])
    if name == "__setitem__":
        _note_written_back(recording, args[2])
        _write(recording, args[0], items, args[2])
        return None
    copy = _read(recording, args[0], items)
    if recording.is_traced(copy):
        source = Geometry.of(args[0])
        recording.pointer_reads.append(PointerRead(copy, source, recording.node_of(copy), calling_line(), []))
    return copy


def require_no_views_of_pointers(recording: Recording) -> None:
    """Check that no code notices that reads at traced positions are copies. Call this before nodes are replaced.

    Raises:
        DataDependentError: If a copy is written to and not stored again, or is read after its source was written.
    """
    for read in recording.pointer_reads:
        _require_used_as_copy(recording, read)


def _require_used_as_copy(recording: Recording, read: PointerRead) -> None:
    place, is_stale, unsaved = Geometry.of(read.copy), False, False
    node = read.node.next
    while node.op != "root":
        written = [item for target in mutated_arguments(node) if (item := recording.geometry(target)) is not None]
        uses = any(_touches(recording, source, place) for source in node.all_input_nodes)
        if uses and is_stale and node.op != "output":
            raise DataDependentError(_message(read, "is read again after the tensor that it is a part of was written"))
        if node in read.stores:
            unsaved = False
        elif any(place.overlaps(item) for item in written):
            unsaved = True
        if any(read.source.overlaps(item) for item in written):
            is_stale = True
        node = node.next
    if unsaved:
        raise DataDependentError(_message(read, "is written to in place"))


def _touches(recording: Recording, node: fx.Node, place: Geometry) -> bool:
    other = recording.geometry(node)
    return other is not None and other.start < place.stop and place.start < other.stop


def _message(read: PointerRead, what: str) -> str:
    return (
        f"{read.where}: the part of a tensor at a position that depends on an input {what}, which the file cannot "
        "follow. Read it with .clone(), and write it with buffer[position] = value."
    )


def _note_written_back(recording: Recording, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        return
    last = next(iter(reversed(recording.graph.nodes)))
    for read in recording.pointer_reads:
        if Geometry.of(read.copy).same_place(Geometry.of(value)):
            read.stores.append(last)


def _is_pointer(recording: Recording, item: Any) -> bool:
    if not isinstance(item, torch.Tensor) or item.dim() or item.is_floating_point() or item.is_complex():
        return False
    return item.dtype not in (torch.bool, torch.uint8) and recording.depends_on_arguments(item)


def _read(recording: Recording, source: torch.Tensor, items: list[Any]) -> torch.Tensor:
    part, rest = source, items
    while (found := _first_pointer(recording, rest)) is not None:
        part, rest = part[_at(rest, found, part.dim())], _with_zero(rest, found)
    return part[tuple(rest)]


def _write(recording: Recording, target: torch.Tensor, items: list[Any], value: Any) -> None:
    found = _first_pointer(recording, items)
    if found is None:
        target[tuple(items)] = value
        return
    place = _at(items, found, target.dim())
    part = target[place]
    _write(recording, part, _with_zero(items, found), value)
    target[place] = part


def _first_pointer(recording: Recording, items: list[Any]) -> int | None:
    return next((position for position, item in enumerate(items) if _is_pointer(recording, item)), None)


def _with_zero(items: list[Any], position: int) -> list[Any]:
    return [*items[:position], 0, *items[position + 1 :]]


def _at(items: list[Any], position: int, dims: int) -> tuple[Any, ...]:
    """The key that keeps all axes, with the pointer as a tensor of one element on its own axis."""
    used = sum(_consumed(item) for item in items)
    axis = sum(dims - used if item is ... else _consumed(item) for item in items[:position])
    return (*[slice(None)] * axis, items[position].reshape(1))


def _consumed(item: Any) -> int:
    if item is None or item is ... or isinstance(item, bool):
        return 0
    is_mask = isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8)
    return item.dim() if is_mask else 1


def _items(key: Any) -> list[Any]:
    return list(key) if isinstance(key, tuple) else [key]
