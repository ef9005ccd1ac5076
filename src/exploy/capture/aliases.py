"""Connects tensors that share memory inside a recorded graph.

make_fx records a tensor that is neither an argument nor the result of an operation as a constant (`get_attr`). It does
so even if the tensor is an old view of an argument, a new wrapper around the same memory, or the `.data` of an
intermediate result. This module replaces each such access by a view of the one node that represents the memory, its
root. Every read then sees every earlier write.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import fx

from exploy.capture.recording import (
    ENTRY,
    OVERWRITES,
    STAGE,
    WHERE,
    Recording,
    mutated_arguments,
    viewed_argument,
)
from exploy.capture.views import InexpressibleView, emit_view, flat_extent_needed
from exploy.errors import AliasError
from exploy.live.geometry import Geometry
from exploy.live.location import UNKNOWN

aten = torch.ops.aten

VIEW = "exploy_view"
FED = "exploy_fed"


@dataclass(eq=False)
class Access:
    """One read or write of memory from outside the graph."""

    node: fx.Node
    geometry: Geometry
    where: str = UNKNOWN


@dataclass(eq=False)
class Region:
    """Accesses that share memory, directly or indirectly, and the arguments in that memory."""

    arguments: list[Access] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    written: bool = False
    root: fx.Node | None = None
    root_geometry: Geometry | None = None

    @property
    def members(self) -> list[Access]:
        """Arguments and accesses."""
        return [*self.arguments, *self.accesses]


def require_disjoint_arguments(named: dict[str, torch.Tensor]) -> None:
    """Check that no two registered tensors share memory, and that no tensor has elements that share memory.

    Raises:
        AliasError: If memory is shared; the message names the tensors.
    """
    places = [(name, Geometry.of(tensor)) for name, tensor in named.items()]
    for position, (name, place) in enumerate(places):
        if place.repeats_elements:
            raise AliasError(
                f"{name!r} is an expanded tensor: several of its elements share one memory location, so they cannot "
                "be set separately. Register the tensor before it is expanded."
            )
        for other, other_place in places[position + 1 :]:
            if place.overlaps(other_place):
                raise AliasError(
                    f"{name!r} and {other!r} share memory, so setting one would overwrite the other. "
                    "Register the whole tensor once, or register parts that do not overlap."
                )


def tie_aliases(recording: Recording) -> list[Region]:
    """Rewrite the graph in place and return its regions of outside memory.

    Must run after the environment is restored, because constants are read from the live tensors.

    Raises:
        AliasError: If slices and reshapes cannot express how memory is shared.
    """
    _tie_to_intermediates(recording)
    regions = _find_regions(recording)
    for region in regions:
        if region.arguments or region.written:
            _rewrite(recording, region)
    return regions


def shared_root(recording: Recording, node: fx.Node) -> fx.Node:
    """The node that owns the memory of a node: the node itself, or the node that it is a view of."""
    parent = alias_parent(recording, node)
    while parent is not None:
        node, parent = parent, alias_parent(recording, parent)
    return node


def alias_parent(recording: Recording, node: fx.Node) -> fx.Node | None:
    """The node that this node is a view of, or None if it has its own memory."""
    if node.meta.get(VIEW):
        return node.args[0]  # type: ignore[return-value]
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        parent = viewed_argument(node.args[0])
    else:
        parent = viewed_argument(node)
    if parent is None or parent.meta.get(VIEW):
        return parent
    own, other = recording.tensor(node), recording.tensor(parent)
    if own is None or other is None:
        return parent
    return parent if _same_storage(own, other) else None


def is_overwritten_first(recording: Recording, root: fx.Node, nodes: Iterable[fx.Node]) -> bool:
    """Whether these nodes overwrite all of a root's memory before they read it."""
    for node in nodes:
        touching = [source for source in node.all_input_nodes if shared_root(recording, source) is root]
        if touching and alias_parent(recording, node) is None:
            return False
        if touching and (written := mutated_arguments(node)):
            is_all = node.target in OVERWRITES and touching == written  # not what is copied from
            return is_all and _is_root_itself(recording, touching[0], root)
    return False


def _is_root_itself(recording: Recording, node: fx.Node, root: fx.Node) -> bool:
    """Whether a node is the root, or the root returned by an in-place operator."""
    while node is not root and mutated_arguments(node):
        parent = alias_parent(recording, node)
        assert parent is not None
        node = parent
    return node is root


def _same_storage(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def _tie_to_intermediates(recording: Recording) -> None:
    """Replace constants that are memory of an earlier result (`.data`, views that were not recorded)."""
    creators: dict[int, fx.Node] = {}
    outside: set[int] = set()
    for node in list(recording.graph.nodes):
        tensor = recording.tensor(node)
        if tensor is None or tensor.numel() == 0:
            continue
        storage = tensor.untyped_storage().data_ptr()
        if node.op == "get_attr":
            creator = creators.get(storage)
            if creator is None:
                outside.add(storage)
                continue
            _replace_by_view(recording, node, creator)
        elif node.op == "placeholder":
            outside.add(storage)
        elif storage not in outside:
            creators.setdefault(storage, node)


def _replace_by_view(recording: Recording, node: fx.Node, creator: fx.Node) -> None:
    base, place = recording.geometry(creator), recording.geometry(node)
    assert base is not None and place is not None
    view = _emit_beside(recording, node, creator, base, place)
    node.replace_all_uses_with(view)
    recording.graph.erase_node(node)


def _emit_beside(
    recording: Recording, node: fx.Node, base: fx.Node, base_geometry: Geometry, place: Geometry
) -> fx.Node:
    """Emit a view of `base` right after `node`, with the same stage and line of code."""
    with recording.graph.inserting_before(node.next):
        try:
            view = emit_view(recording.graph, base, base_geometry, place)
        except InexpressibleView as error:
            raise AliasError(
                f"{_place_of(node)}: a tensor shares memory with a registered or computed tensor in a way that the "
                f"file cannot express ({error}). Read it through ordinary slices of one tensor."
            ) from error
    inserted = node.next
    while STAGE not in inserted.meta and inserted.op == "call_function":
        inserted.meta.update({STAGE: node.meta[STAGE], WHERE: _place_of(node), VIEW: True})
        inserted = inserted.next
    return view


def _place_of(node: fx.Node) -> str:
    for candidate in (node, *node.users):
        if WHERE in candidate.meta:
            return str(candidate.meta[WHERE])
    return UNKNOWN


def _find_regions(recording: Recording) -> list[Region]:
    regions: list[Region] = []
    for node in recording.graph.nodes:
        if node.op == "placeholder":
            geometry = recording.geometry(node)
            assert geometry is not None
            regions.append(Region(arguments=[Access(node, geometry)]))
    for node in recording.graph.nodes:
        if node.op == "get_attr" and recording.tensor(node) is not None:
            for access in _accesses(recording, node):
                _add_to_regions(regions, access)
    _mark_written(recording, regions)
    return regions


def _accesses(recording: Recording, constant: fx.Node) -> list[Access]:
    """The nodes where a constant is used: the constant itself, or views of it."""
    found: list[Access] = []
    pending = [constant]
    while pending:
        node = pending.pop()
        views = [user for user in node.users if _is_pure_view(recording, user, node)]
        pending.extend(views)
        geometry = recording.geometry(node)
        if geometry is not None and len(views) < len(node.users):
            found.append(Access(node, geometry, _place_of(node)))
    return found


def _is_pure_view(recording: Recording, user: fx.Node, viewed: fx.Node) -> bool:
    if user.target is operator.getitem:
        return True
    if viewed_argument(user) is not viewed or mutated_arguments(user):
        return False
    tensor, base = recording.tensor(user), recording.tensor(viewed)
    return tensor is None or base is None or _same_storage(tensor, base)


def _add_to_regions(regions: list[Region], access: Access) -> None:
    touched = [
        region for region in regions if any(access.geometry.overlaps(member.geometry) for member in region.members)
    ]
    merged = Region(accesses=[access])
    for region in touched:
        merged.arguments = region.arguments + merged.arguments
        merged.accesses = region.accesses + merged.accesses
        regions.remove(region)
    regions.append(merged)


def _mark_written(recording: Recording, regions: list[Region]) -> None:
    for node in recording.graph.nodes:
        for target in mutated_arguments(node):
            geometry = recording.geometry(target)
            if geometry is None:
                continue
            for region in regions:
                if any(geometry.overlaps(member.geometry) for member in region.members):
                    region.written = True


def _rewrite(recording: Recording, region: Region) -> None:
    """Give the region one root at the start of the graph and express every access as a view of it."""
    if not _rewrite_on_dense_member(recording, region):
        _rewrite_on_flat_buffer(recording, region)


def _rewrite_on_dense_member(recording: Recording, region: Region) -> bool:
    candidates = region.arguments if region.arguments else region.accesses
    for candidate in candidates:
        place = candidate.geometry
        others = [member.geometry for member in region.members if member is not candidate]
        if len(region.arguments) > 1 or not place.is_dense:
            continue
        if all(place.contains(other) and _expressible(place, other) for other in others):
            source = candidate.node if region.arguments else _constant(recording, candidate)
            _redirect(recording, region, source, place)
            return True
    return False


def _expressible(base: Geometry, view: Geometry) -> bool:
    scratch = fx.Graph()
    try:
        emit_view(scratch, scratch.placeholder("base"), base, view)
    except InexpressibleView:
        return False
    return True


def _rewrite_on_flat_buffer(recording: Recording, region: Region) -> None:
    places = [member.geometry for member in region.members]
    dtypes = {place.dtype for place in places}
    if len(dtypes) > 1:
        names = ", ".join(sorted(str(dtype) for dtype in dtypes))
        raise AliasError(
            f"{_place_of(region.members[-1].node)}: the same memory is used with different dtypes: {names}. "
            "Convert with .to(dtype) instead of .view(dtype)."
        )
    start = min(place.start for place in places)
    length = max(flat_extent_needed(place, start) for place in places)
    buffer = torch.zeros(length, dtype=places[0].dtype)
    for access in region.accesses:
        live = recording.tensor(access.node)
        assert live is not None
        offset = (access.geometry.start - start) // access.geometry.itemsize
        buffer.as_strided(access.geometry.shape, access.geometry.strides, offset).copy_(live)
    geometry = Geometry(start, (length,), (1,), places[0].dtype)
    _redirect(recording, region, new_constant(recording, buffer), geometry)


def _redirect(recording: Recording, region: Region, source: fx.Node, geometry: Geometry) -> None:
    graph = recording.graph
    first = next(node for node in graph.nodes if node.op != "placeholder" and node is not source)
    with graph.inserting_before(first):
        root = graph.call_function(aten.clone.default, (source,), {"memory_format": torch.preserve_format})
    root.meta.update({STAGE: ENTRY})
    region.root, region.root_geometry = root, geometry
    for argument in region.arguments:
        view = _argument_view(recording, root, geometry, argument, source)
        _replace_uses(argument.node, view, lambda user: user is not root and FED not in user.meta)
    for access in region.accesses:
        view = _emit_beside(recording, access.node, root, geometry, access.geometry)
        _replace_uses(access.node, view, partial(_is_real_use, recording, access.node))


def _replace_uses(node: fx.Node, replacement: fx.Node, wanted: Callable[[fx.Node], bool]) -> None:
    node.replace_all_uses_with(replacement, delete_user_cb=wanted)


def _is_real_use(recording: Recording, node: fx.Node, user: fx.Node) -> bool:
    return not _is_pure_view(recording, user, node)


def _argument_view(
    recording: Recording, root: fx.Node, geometry: Geometry, argument: Access, source: fx.Node
) -> fx.Node:
    """The view of the root that represents an argument. If the root is larger, the value is first written to it."""
    if source is argument.node:
        return root
    view = _emit_beside(recording, root, root, geometry, argument.geometry)
    with recording.graph.inserting_before(view.next):
        write = recording.graph.call_function(aten.copy_.default, (view, argument.node))
    write.meta.update({STAGE: ENTRY, FED: argument.node})
    return view


def _constant(recording: Recording, access: Access) -> fx.Node:
    live = recording.tensor(access.node)
    assert live is not None
    return new_constant(recording, live)


def new_constant(recording: Recording, value: torch.Tensor) -> fx.Node:
    """Add a constant at the start of the graph."""
    name = f"_region_{sum(1 for name, _ in recording.module.named_buffers() if name.startswith('_region_'))}"
    recording.module.register_buffer(name, value.detach())
    first = next(node for node in recording.graph.nodes if node.op != "placeholder")
    with recording.graph.inserting_before(first):
        node = recording.graph.get_attr(name)
    node.meta.update({STAGE: ENTRY})
    return node
