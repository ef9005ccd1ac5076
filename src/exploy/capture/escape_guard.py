"""Raises an error when a traced value leaves torch, because its result would silently become a constant."""

import functools
import types
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_iter, tree_map

from exploy.capture.branches import Branches
from exploy.capture.one_hot_masks import at_one_hot, one_hot_index
from exploy.capture.pointers import at_pointer, has_pointer
from exploy.capture.recording import Recording, data_dependent_message, is_about_control_flow
from exploy.capture.replaced_memory import replace_memory
from exploy.capture.row_operations import Rows
from exploy.capture.subclasses import call_by_classes, classes_to_ask, is_subclass
from exploy.errors import DataDependentError
from exploy.live.called_function import torch_function_instead
from exploy.live.geometry import has_memory
from exploy.live.location import UNKNOWN, calling_frame, calling_line
from exploy.live.snapshot import Snapshot, sets_data

_ESCAPES = {
    "__bool__": "The truth value of a tensor (if, while, and, assert)",
    "__int__": "A number from int()",
    "__float__": "A number from float()",
    "__complex__": "A number from complex()",
    "__index__": "A tensor used as a Python index",
    "__contains__": "The result of `in` on a tensor",
    "item": "A number from .item()",
    "tolist": "A list from .tolist()",
    "numpy": "An array from .numpy()",
    "__array__": "An array created by numpy",
    "__dlpack__": "Memory exported through DLPack",
    "to_dlpack": "Memory exported through DLPack",
    "_to_dlpack": "Memory exported through DLPack",
    "data_ptr": "The address of a tensor",
    "__cuda_array_interface__": "Memory exported through the CUDA array interface",
    "equal": "The result of torch.equal()",
    "allclose": "The result of torch.allclose()",
    "is_nonzero": "The result of torch.is_nonzero()",
    "storage": "The memory of a tensor",
    "_typed_storage": "The memory of a tensor",
    "untyped_storage": "The memory of a tensor",
    "__reduce_ex__": "A copy made by pickle, torch.save() or copy.copy()",
    "apply_": "A value given to the function of .apply_()",
    "map_": "A value given to the function of .map_()",
    "map2_": "A value given to the function of .map2_()",
    "__repr__": "A string made by str(), repr() or print()",
    "__str__": "A string made by str(), repr() or print()",
    "__format__": "A string made by format() or an f-string",
}
_TRUTHS = {"__bool__", "item", "is_nonzero", "__int__", "__index__"}
_FROM_LISTS = {"tensor", "as_tensor", "asarray", "new_tensor", "new"}
_STORAGES = {"storage", "_typed_storage", "untyped_storage"}
_OF_TORCH_ITSELF = {*_STORAGES, "__repr__", "__str__", "__format__"}
_WRITTEN_BY_PYTHON = {"apply_", "map_", "map2_"}


class EscapeGuard(TorchFunctionMode):
    """Intercepts every call of a torch function while recording.

    Python may read values that do not depend on an input, because they are constants. Recording is disabled for these
    reads. Tensors that are new to the recording are added to the snapshot before anything can write to them.
    """

    def __init__(self, recording: Recording, snapshot: Snapshot):
        super().__init__()
        self._recording = recording
        recording.guard = self
        self._snapshot = snapshot
        self._escape: DataDependentError | None = None
        self._rows = Rows(recording, self)
        self._branches = Branches(recording, self._raise)

    def require_no_escape(self) -> None:
        """Raise the first error of this guard again, if there was one, since the recorded code has caught it.

        Raises:
            DataDependentError: If a value that depends on an input has left torch.
        """
        self._branches.finish()
        if self._escape is not None:
            raise self._escape

    def __torch_function__(
        self, func: Callable[..., Any], _: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a torch function.

        Raises:
            DataDependentError: If it would move a value that depends on an input out of torch.
        """
        kwargs = kwargs or {}
        items = list(tree_iter((args, kwargs)))
        kinds = classes_to_ask(items)
        if kinds:
            with self:
                return call_by_classes(kinds, func, args, kwargs)
        if sets_data(func):
            return self.replace_memory(func, args)
        if not any(map(is_subclass, items)):
            return self._called(func, items, args, kwargs)

        def called(*given: Any, **named: Any) -> Any:
            return self._called(func, list(tree_iter((given, named))), given, named)

        return self._recording.plain.call(called, args, kwargs)

    def _called(self, func: Callable[..., Any], items: list[Any], args: Any, kwargs: Any) -> Any:
        name = _name(func)
        tensors = [item for item in items if isinstance(item, torch.Tensor) and has_memory(item)]
        if self._recording.is_inside_transformation:
            self._protect(tensors)
            return self._transformed(name, func, args, kwargs, items)
        self._branches.advance(name)
        index = one_hot_index(self._recording, name, args)
        if index is not None:
            self._protect(tensors)
            return at_one_hot(args[0], index)
        if self._rows.concerns(name, args, kwargs, items):
            self._protect(tensors)
            return self._rows.call(func, name, args, kwargs)
        if has_pointer(self._recording, name, args):
            self._protect(tensors)
            return at_pointer(self._recording, name, args)
        if name in _ESCAPES and tensors:
            return self._read(name, func, tensors, args, kwargs)
        if name in _FROM_LISTS and tensors:
            if self._depend_on_arguments(tensors):
                return self._stacked(func, args, kwargs)
            self._note_reads(tensors, calling_line())
        self._protect(tensors)
        if name == "__deepcopy__":
            return args[0].clone()
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if not is_about_control_flow(error):
                raise
            return self._with_numbers(func, args, kwargs)

    def replace_memory(self, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Give a tensor the memory of another one.

        Raises:
            DataDependentError: If it is a part of other memory.
        """
        if len(args) != 2 or not isinstance(args[1], torch.Tensor):
            self.refuse(
                "the memory of a tensor is replaced by a part of other memory, which a recording cannot follow. Write "
                "the values with tensor.copy_(value), or assign a view of the other tensor to the attribute."
            )
        self._protect(list(args))
        self._snapshot.keep_memory_of(args[0])
        return replace_memory(self._recording, func, *args)

    def _read(self, name: str, func: Callable[..., Any], tensors: list[torch.Tensor], args: Any, kwargs: Any) -> Any:
        where = calling_line()
        is_internal = name in _OF_TORCH_ITSELF and where == UNKNOWN
        if name in _WRITTEN_BY_PYTHON or (not is_internal and self._depend_on_arguments(tensors)):
            if name in _WRITTEN_BY_PYTHON or not self._branches.drops_question():
                if name in _TRUTHS and self._branches.has_true(tensors[0]):
                    return True
                self._refuse(_ESCAPES[name], where, torch_function_instead(calling_frame()))
            where = UNKNOWN
        if name not in _STORAGES:
            self._note_reads(tensors, where)
        with disable_proxy_modes_tracing():
            return func(*args, **kwargs)

    def _transformed(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, items: list[Any]) -> Any:
        """Run a function inside of a transformation, where no value may leave torch."""
        if name in _ESCAPES and any(isinstance(item, torch.Tensor) for item in items) and calling_line() != UNKNOWN:
            self._refuse(_ESCAPES[name], calling_line())
        return func(*args, **kwargs)

    def _note_reads(self, tensors: list[torch.Tensor], where: str) -> None:
        for tensor in tensors if where != UNKNOWN else []:
            self._recording.note_python_read(tensor, where)

    def _refuse(self, what: str, where: str, instead: tuple[str, str] | None = None) -> NoReturn:
        self._raise(data_dependent_message(what, where, instead))

    def _raise(self, message: str) -> NoReturn:
        error = DataDependentError(message)
        self._escape = self._escape or error
        raise error

    def refuse(self, message: str) -> NoReturn:
        """Raise the error for masked rows that a file cannot express."""
        self._raise(f"{calling_line()}: {message}")

    def escapes(self, name: str) -> bool:
        """Whether a torch function moves values out of torch."""
        return name in _ESCAPES or name in _FROM_LISTS

    def has_rows(self, mask: torch.Tensor) -> bool:
        """Whether a mask has a true element, asked in front of writes through it.

        Raises:
            DataDependentError: If it is asked for something else.
        """
        self._branches.advance("len")
        if not self._branches.has_rows(mask):
            self._rows.refuse("the number of elements that a mask selects is used")
        return True

    def _with_numbers(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Call a function that reads tensors as numbers, such as sizes and indices, with numbers instead."""
        where = calling_line()
        kept = args[0] if isinstance(func, types.MethodDescriptorType | types.WrapperDescriptorType) else None

        def number(value: Any) -> Any:
            if isinstance(value, slice):
                return slice(number(value.start), number(value.stop), number(value.step))
            if not isinstance(value, torch.Tensor) or value.dim() or not has_memory(value) or value is kept:
                return value
            if self._depend_on_arguments([value]):
                self._refuse("A number that torch reads from a tensor, as a size, an index or a fill value,", where)
            self._note_reads([value], where)
            with disable_proxy_modes_tracing():
                return value.item()

        numbers, named = tree_map(number, (args, kwargs))
        try:
            return func(*numbers, **named)
        except RuntimeError as error:
            if not is_about_control_flow(error):
                raise
        return self._refuse("A value", where)

    def _depend_on_arguments(self, tensors: list[torch.Tensor]) -> bool:
        return any(self._recording.depends_on_arguments(tensor) for tensor in tensors)

    def _stacked(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Make a tensor of a list that holds traced tensors, which torch itself would read as numbers."""
        with disable_proxy_modes_tracing():
            example: torch.Tensor = func(*args, **kwargs)
        data = kwargs.get("data", kwargs.get("obj", args[-1] if args else None))
        if isinstance(data, torch.Tensor):
            return data.clone().to(example.dtype)
        return _stack(data).to(example.dtype).reshape(example.shape)

    def _protect(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            if not self._recording.is_traced(tensor):
                self._snapshot.protect(tensor)


def _stack(data: Any) -> torch.Tensor:
    """A nested list of numbers and tensors as one tensor."""
    if isinstance(data, list | tuple):
        parts = [_stack(item) for item in data]
        dtype = functools.reduce(torch.promote_types, (part.dtype for part in parts))
        return torch.stack([part.to(dtype) for part in parts])
    return data if isinstance(data, torch.Tensor) else torch.tensor(data)


def _name(func: Callable[..., Any]) -> str:
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return (resolve_name(func) or "").split(".")[-2]
    return name
