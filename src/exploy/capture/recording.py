"""Runs a function once on real tensors while make_fx records it, and keeps information that the graph lacks.

For every node this is the live tensor that it produced, the pipeline stage, and the line of user code that called it.
Tensors are kept alive so that no memory address is reused.
"""

import contextlib
import importlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, make_fx
from torch.utils.weak import WeakIdKeyDictionary

from exploy.capture.autocast import marks_autocast, recording_conversions
from exploy.capture.foreach import recording_lists
from exploy.capture.replaced_memory import recording_set
from exploy.capture.subclasses import PlainTensors, recording_subclasses
from exploy.errors import CaptureError, DataDependentError, ExployError
from exploy.live.geometry import Geometry, has_memory
from exploy.live.location import UNKNOWN, calling_line, is_raised_by_user_code, raising_line

STAGE = "exploy_stage"
WHERE = "exploy_where"
ENTRY = "entry"
CONSTANT_MASKS = "exploy_constant_masks"
MASKED_BY = "exploy_masked_by"
INDEXING = (
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
    torch.ops.aten.index_put.default,
)
OVERWRITES = (
    torch.ops.aten.copy_.default,
    torch.ops.aten.fill_.Scalar,
    torch.ops.aten.fill_.Tensor,
    torch.ops.aten.zero_.default,
)
_UNTAGGED_DYNAMIC_SIZES = (
    torch.ops.aten.nonzero_numpy.default,
    torch.ops.aten.where.default,
    torch.ops.aten.repeat_interleave.self_Tensor,
)
_CONTROL_FLOW_HINTS = ("get value out of a tracing tensor", "failed in the TorchScript interpreter")


class Recording:
    """A recorded graph, with the live tensors of its nodes."""

    def __init__(self) -> None:
        self.module: fx.GraphModule
        self.tensors: dict[fx.Node, torch.Tensor] = {}
        self.arguments: list[torch.Tensor] = []
        self.python_reads: list[tuple[torch.Tensor, str]] = []
        self.dropped_checks: list[str] = []
        self.pointer_reads: list[Any] = []
        self.is_inside_transformation = False
        self.plain = PlainTensors()
        self.guard: Any = None  # the EscapeGuard, for what torch calls below torch functions
        self._tracer: Any = None
        self._taint = _Taint(self)

    @property
    def graph(self) -> fx.Graph:
        """The recorded graph; while recording, the graph under construction."""
        graph: fx.Graph = self._tracer.graph if self._tracer is not None else self.module.graph
        return graph

    def run(
        self,
        function: Callable[..., Any],
        arguments: list[torch.Tensor],
        gradient_mode: contextlib.AbstractContextManager[Any],
    ) -> None:
        """Record `function(*arguments)` within the given gradient mode.

        Raises:
            DataDependentError: If Python code branches on a traced value.
            CaptureError: If torch raises an error in the recorded code.
            Exception: Whatever the recorded code raises itself.
        """

        def recorded(*tensors: torch.Tensor) -> Any:
            self._attach(tensors)
            return function(*tensors)

        try:
            with gradient_mode, plain_torch():
                self.module = make_fx(recorded, tracing_mode="real", pre_dispatch=True)(*arguments)
        except ExployError:
            raise
        except Exception as error:
            if is_about_control_flow(error):
                raise DataDependentError(data_dependent_message("A value", raising_line(error))) from error
            if is_raised_by_user_code(error) or raising_line(error) == UNKNOWN:
                raise
            raise CaptureError(
                f"{raising_line(error)}: torch cannot record this ({type(error).__name__}: {error}). Use other torch "
                "operations, or move code that is not meant to run on the robot to prepare_export()."
            ) from error
        self._tracer = None
        for node in reversed(self.graph.nodes):
            if node.target is torch._C._set_grad_enabled or marks_autocast(node.target):
                self.graph.erase_node(node)

    def end_stage(self, stage: str) -> None:
        """Assign everything recorded since the last call to this stage."""
        for node in self.graph.nodes:
            node.meta.setdefault(STAGE, stage)

    def node_of(self, tensor: torch.Tensor) -> fx.Node:
        """The node that produced a traced tensor; only available while recording."""
        node: fx.Node = self._tracer.tensor_tracker[self.plain.of(tensor)].proxy.node
        return node

    def is_traced(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor object is an argument or the result of a recorded operation."""
        return self._tracer is not None and self.plain.of(tensor) in self._tracer.tensor_tracker

    def depends_on_arguments(self, tensor: torch.Tensor) -> bool:
        """Whether the contents of a tensor depend on the arguments; only available while recording."""
        return self._taint.covers(tensor)

    def note_python_read(self, tensor: torch.Tensor, where: str) -> None:
        """Remember that Python has read a value that depends on no argument: it is a constant from now on.

        `python_reads` has the outside tensors that the value was computed from, with the line that read it.
        """
        pending = [self.node_of(tensor)] if self.is_traced(tensor) else []
        if not pending:
            self.python_reads.append((tensor, where))
        seen: set[fx.Node] = set()
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            pending.extend(node.all_input_nodes)
            source = self.tensor(node) if node.op == "get_attr" else None
            if source is not None:
                is_part = Geometry.of(source).contains(Geometry.of(tensor))
                self.python_reads.append((tensor if is_part else source, where))

    def note_dropped_check(self, where: str) -> None:
        """Remember a line that checks traced values, which the file does not do."""
        if where not in self.dropped_checks:
            self.dropped_checks.append(where)

    @contextlib.contextmanager
    def inside_transformation(self) -> Iterator[None]:
        """Mark a block in which a transformed function is recorded for itself; nothing is added to this recording."""
        self.is_inside_transformation = True
        try:
            yield
        finally:
            self.is_inside_transformation = False

    def tensor(self, node: fx.Node) -> torch.Tensor | None:
        """The live tensor of a node, or None."""
        if node.op == "get_attr":
            owner = self._tracer.root if self._tracer is not None else self.module
            value = getattr(owner, str(node.target))
            return value if isinstance(value, torch.Tensor) else None
        return self.tensors.get(node)

    @property
    def tracker(self) -> WeakIdKeyDictionary:
        """What the tracer knows of tensors; only available while recording."""
        tracker: WeakIdKeyDictionary = self._tracer.tensor_tracker
        return tracker

    def replace_tensor(self, tensor: torch.Tensor, other: torch.Tensor) -> None:
        """Keep another tensor for the nodes that have produced this one; only available while recording."""
        self.arguments = [other if item is tensor else item for item in self.arguments]
        for node in self.graph.nodes:
            if self.tensor(node) is not tensor:
                continue
            if node.op == "get_attr":
                delattr(self._tracer.root, node.target)
                setattr(self._tracer.root, node.target, other)
            else:
                self.tensors[node] = other
        self._tracer.tensor_attrs.pop(tensor, None)

    def geometry(self, node: fx.Node) -> Geometry | None:
        """The memory location and layout of a node's tensor, or None."""
        tensor = self.tensor(node)
        return None if tensor is None else Geometry.of(tensor)

    def _attach(self, arguments: tuple[torch.Tensor, ...]) -> None:
        mode: Any = get_proxy_mode()
        tracer: Any = getattr(mode, "tracer", None)
        if not isinstance(getattr(tracer, "tensor_tracker", None), WeakIdKeyDictionary):
            raise CaptureError(
                f"torch {torch.__version__} records operations in a way that this version of exploy does not "
                "support. Install a version of torch from the range that exploy was tested with."
            )
        self._tracer = tracer
        self.arguments = list(arguments)
        for argument in arguments:
            self.tensors[self.node_of(argument)] = argument
            self.plain.note(argument)
        tracker = _RecordingTracker(self, tracer.tensor_tracker)
        tracer.tensor_tracker = tracker
        dispatch = _without_copies_of_shared_memory(mode.__torch_dispatch__)
        dispatch = recording_lists(mode, recording_conversions(mode, dispatch))
        dispatch = recording_set(self, mode, dispatch)
        mode.__torch_dispatch__ = recording_subclasses(self, mode, dispatch)
        self.end_stage(ENTRY)

    def note(self, tensor: torch.Tensor, node: fx.Node) -> None:
        """Store the result of an operation.

        Raises:
            DataDependentError: If its size depends on traced values.
            CaptureError: If it was created inside a transformation such as vmap, is not a dense tensor, or is read by
                strides of memory that a file does not have.
        """
        self.tensors[node] = tensor
        if WHERE not in node.meta:
            node.meta[WHERE] = calling_line()
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            raise CaptureError(
                f"{node.meta[WHERE]}: transformations such as torch.vmap() cannot be recorded. "
                "Write the computation for a whole batch."
            )
        if not has_memory(tensor):
            raise CaptureError(
                f"{node.meta[WHERE]}: a tensor of layout {tensor.layout} on the device {tensor.device} cannot be "
                "recorded. Use dense tensors with values."
            )
        if node.target is torch.ops.aten.as_strided.default and not self._has_memory_of_a_file(node):
            raise CaptureError(
                f"{node.meta[WHERE]}: as_strided() reads the memory of a tensor whose elements do not lie one after "
                "the other, or that is a part of another one. A file has values and no memory. Use slices or indices."
            )
        self.plain.note(tensor)
        origin = node.args[0] if node.target is operator.getitem else node
        if isinstance(origin, fx.Node):
            origin.meta.setdefault(WHERE, node.meta[WHERE])
        if isinstance(origin, fx.Node) and self._size_depends_on_arguments(origin):
            name = str(origin.target).removeprefix("aten.").split(".")[0]
            raise DataDependentError(
                f"{node.meta[WHERE]}: the size of the result of `{name}` depends on values of an input, "
                "which a file with fixed shapes cannot express. Use torch.where() or multiply by the mask, "
                "which keep the shape."
            )

    def _has_memory_of_a_file(self, node: fx.Node) -> bool:
        """Whether as_strided() reads only memory that is laid out as the values of its operand are in a file."""
        operand, _, _, *offset = node.args
        source = self.tensor(operand) if isinstance(operand, fx.Node) else None
        if source is None:
            return True
        is_whole = not offset or offset[0] is None or source.storage_offset() == 0
        place, read = Geometry.of(source), Geometry.of(self.tensors[node])
        return source.is_contiguous() and is_whole and place.start <= read.start and read.stop <= place.stop

    def _size_depends_on_arguments(self, node: fx.Node) -> bool:
        with torch._C.DisableTorchFunction():  # compiled code gets here while the guard is still on
            return self._has_traced_size(node)

    def _has_traced_size(self, node: fx.Node) -> bool:
        target = node.target
        if target in INDEXING:
            indices = enumerate(node.args[1])  # type: ignore[arg-type]
            masks = {position: index for position, index in indices if is_mask(self, index)}
            constant = {position: mask for position, mask in masks.items() if not self._taint.reaches(mask)}
            node.meta[CONSTANT_MASKS] = {position: self._hits(mask) for position, mask in constant.items()}
            for mask in constant.values():
                read = self.tensor(mask)
                if read is not None:
                    self.note_python_read(read, node.meta.get(WHERE) or calling_line())
            return target is INDEXING[0] and len(constant) < len(masks)
        return _has_dynamic_size(node) and self._taint.reaches(node)

    def _hits(self, mask: fx.Node) -> list[torch.Tensor]:
        tensor = self.tensor(mask)
        assert tensor is not None
        with disable_proxy_modes_tracing():
            return [index.clone() for index in tensor.nonzero(as_tuple=True)]


def is_about_control_flow(error: Exception) -> bool:
    """Whether torch has refused to read a traced value as a number."""
    return isinstance(error, RuntimeError) and any(hint in str(error) for hint in _CONTROL_FLOW_HINTS)


def data_dependent_message(what: str, where: str, instead: tuple[str, str] | None = None) -> str:
    """The error message for a value that leaves torch.

    Args:
        what: What leaves torch.
        where: The line of user code.
        instead: The function that is called, and the function of torch that does the same.
    """
    if instead is not None:
        return (
            f"{where}: {what} that depends on an input leaves torch here, so the result would become a constant in "
            f"the file. Use {instead[1]}() instead of {instead[0]}()."
        )
    return (
        f"{where}: {what} that depends on an input leaves torch here, so the result would become a constant in the "
        "file. Use torch operations instead, for example torch.where() instead of an if, or buffer[index.view(1)] "
        "if the index is a 0-d tensor. If the code is not meant to run on the robot, move it to prepare_export()."
    )


class _RecordingTracker(WeakIdKeyDictionary):
    """The tracer's table of tensors, which also reports each new entry to the recording."""

    def __init__(self, recording: Recording, entries: WeakIdKeyDictionary):
        super().__init__(dict(entries.items()))
        self._recording = recording

    def __setitem__(self, tensor: torch.Tensor, entry: Any) -> None:
        super().__setitem__(tensor, entry)
        self._recording.note(tensor, entry.proxy.node)


def _without_copies_of_shared_memory(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """Make the tracer leave new tensors over the memory of others alone, as `torch.from_numpy()` returns them.

    The tracer copies each new tensor, because it may be a literal that is written later. Of shared memory, a copy would
    neither be read again at a sub-step nor be written.
    """

    def dispatched(function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.lift_fresh.default and _is_shared(args[0]):
            return args[0]
        return dispatch(function, types, args, kwargs or {})

    return dispatched


def _is_shared(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies in memory that torch has not allocated itself."""
    with torch._C.DisableTorchFunction():
        return not tensor.untyped_storage().resizable()


class _Taint:
    """Tracks which nodes and which memory hold values that depend on the arguments."""

    def __init__(self, recording: Recording):
        self._recording = recording
        self._last: fx.Node | None = None
        self._nodes: set[fx.Node] = set()
        self._memory: list[tuple[int, int]] = []

    def covers(self, tensor: torch.Tensor) -> bool:
        self._advance()
        geometry = Geometry.of(tensor)
        return self._is_tainted_memory(geometry) or self._is_tainted_view(tensor)

    def reaches(self, node: fx.Node) -> bool:
        self._advance()
        return node in self._nodes

    def _is_tainted_view(self, tensor: torch.Tensor) -> bool:
        return self._recording.is_traced(tensor) and self._recording.node_of(tensor) in self._nodes

    def _is_tainted_memory(self, geometry: Geometry) -> bool:
        return any(geometry.start < stop and start < geometry.stop for start, stop in self._memory)

    def _advance(self) -> None:
        graph = self._recording.graph
        node = next(iter(graph.nodes), None) if self._last is None else self._last.next
        while node is not None and node.op != "root":
            self._visit(node)
            self._last = node
            node = node.next

    def _visit(self, node: fx.Node) -> None:
        geometry = self._recording.geometry(node)
        tainted = node.op == "placeholder" or any(source in self._nodes for source in node.all_input_nodes)
        if node.op == "get_attr" and geometry is not None:
            tainted = self._is_tainted_memory(geometry)
        if not tainted:
            return
        self._nodes.add(node)
        for touched in (node, *mutated_arguments(node)):
            place = self._recording.geometry(touched)
            if place is not None and place.stop > place.start:
                self._memory.append((place.start, place.stop))


def mutated_arguments(node: fx.Node) -> list[fx.Node]:
    """The arguments that an operator writes to in place."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    mutated: list[fx.Node] = []
    for argument, value in _bound_arguments(node, node.target):
        if argument.alias_info is not None and argument.alias_info.is_write:
            values = value if isinstance(value, list | tuple) else [value]
            mutated.extend(item for item in values if isinstance(item, fx.Node))
    return mutated


def viewed_argument(node: fx.Node) -> fx.Node | None:
    """The argument that an operator's result aliases according to its schema (also for in-place operators)."""
    if not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.returns:
        return None
    result = node.target._schema.returns[0].alias_info
    if result is None:
        return None
    for argument, value in _bound_arguments(node, node.target):
        info = argument.alias_info
        if info is not None and info.before_set & result.before_set and isinstance(value, fx.Node):
            return value
    return None


def _bound_arguments(node: fx.Node, target: Any) -> Iterator[tuple[Any, Any]]:
    for position, argument in enumerate(target._schema.arguments):
        if position < len(node.args):
            yield argument, node.args[position]
        elif argument.name in node.kwargs:
            yield argument, node.kwargs[argument.name]


def _has_dynamic_size(node: fx.Node) -> bool:
    target = node.target
    if target in _UNTAGGED_DYNAMIC_SIZES:
        return True
    if target is torch.ops.aten.one_hot.default:
        return len(node.args) < 2 or bool(node.args[1] == -1)
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.dynamic_output_shape in target.tags


def is_mask(recording: Recording, index: object) -> bool:
    """Whether an index of an indexing operator is a boolean mask."""
    tensor = recording.tensor(index) if isinstance(index, fx.Node) else None
    return tensor is not None and tensor.dtype in (torch.bool, torch.uint8)


@contextlib.contextmanager
def plain_torch() -> Iterator[None]:
    """Disable fused attention, argument checks of distributions, and compilation in torch."""
    distribution = torch.distributions.Distribution
    validate, fastpath = distribution._validate_args, torch.backends.mha.get_fastpath_enabled()
    distribution.set_default_validate_args(False)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        dynamo = importlib.import_module("torch._dynamo")  # slow import (about 1 s), only needed for an export
        with torch.compiler.set_stance("force_eager"), dynamo.config.patch(error_on_nested_fx_trace=False):
            yield
    finally:
        distribution.set_default_validate_args(validate)
        torch.backends.mha.set_fastpath_enabled(fastpath)
