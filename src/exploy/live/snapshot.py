"""Saves and restores the state of live objects: values, identities, bindings, flags, generators."""

import collections
import contextlib
import operator
import random
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_iter

from exploy.live.geometry import has_memory
from exploy.live.gradient_mode import gradient_mode
from exploy.live.module_globals import ModuleGlobals
from exploy.live.object_graph import cached_by_type, data_places, has_slots, instance_dict, slots_of, walk
from exploy.live.scripted_modules import restore_script_attributes, script_attributes

_MISSING = object()
_READ_ONLY: frozenset[object] = frozenset(
    {
        torch.Tensor.clone, torch.Tensor.cpu, torch.Tensor.detach, torch.Tensor.dim, torch.Tensor.is_complex,
        torch.Tensor.is_floating_point, torch.Tensor.numel, torch.Tensor.resolve_conj, torch.Tensor.resolve_neg,
        torch.Tensor.size, *(vars(torch._C.TensorBase)[name].__get__ for name in ("device", "dtype", "shape")),
    }
)  # fmt: skip
_SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]
_WITHOUT_TENSORS = frozenset(
    {
        bool,
        int,
        float,
        str,
        slice,
        type(None),
        type(...),
        torch.dtype,
        torch.device,
        torch.memory_format,
        torch.Generator,
    }
)


class Snapshot:
    """The state of all objects that can be reached from the roots, and of the random generators.

    As a context manager it restores the state on exit, also after an error. Tensor contents are saved once per storage,
    so views and aliases add no cost. Objects beyond the limits of the walk are not saved. `protect()` adds a tensor
    that is found later, before it is written to. `generators` are the numpy and Python generators that were found,
    `kinds` the classes of all objects, by id, because a metaclass may not be hashable.
    """

    def __init__(self, roots: dict[str, object]):
        self._storages: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._arrays: list[tuple[np.ndarray, np.ndarray]] = []
        self._attributes: list[tuple[str, dict[Any, Any], dict[Any, Any]]] = []
        self._sequences: list[tuple[Any, list[Any]]] = []
        self._sets: list[tuple[set[Any], set[Any]]] = []
        self._slots: list[tuple[object, dict[str, Any]]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._globals: list[tuple[ModuleGlobals, dict[str, Any]]] = []
        self._scripted: list[tuple[torch.jit.ScriptModule, dict[str, Any]]] = []
        self._restore_generators: list[Callable[[], object]] = _global_generators()
        self._class_data: dict[tuple[type, str], Any] = {}
        self.generators: list[np.random.Generator | np.random.RandomState | random.Random] = []
        self.kinds: dict[int, type] = {}
        for attr_path, value in walk(roots, closures=True):
            if id(type(value)) not in self.kinds:
                self.kinds[id(type(value))] = type(value)
                self._keep_class(attr_path, type(value))
            for saver in _savers_for(type(value)):
                saver(self, attr_path, value)

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self.restore()

    def gradient_mode(self) -> contextlib.AbstractContextManager[Any]:
        """The gradient mode in which to run the environment code."""
        return gradient_mode(tensor for tensor, _ in self._tensors)

    def addresses(self) -> frozenset[int]:
        """The addresses of the data of all tensors that were found; none is used again while the snapshot exists."""
        return frozenset(alias.data_ptr() for _, alias in self._tensors)

    def protect(self, tensor: torch.Tensor) -> None:
        """Save the contents of a tensor's memory, if not already saved."""
        with torch._C.DisableTorchFunction():
            if not has_memory(tensor):
                return
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
            if address == 0 or address in self._storages:
                return
            tracing = disable_proxy_modes_tracing() if get_proxy_mode() is not None else contextlib.nullcontext()
            with tracing, _disable_current_modes():  # a mode that logs operators must not see these
                flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
                self._storages[address] = (flat, flat.clone())

    def keep_memory_of(self, tensor: torch.Tensor) -> None:
        """Save which memory a tensor has, if not already saved, before it is given other memory."""
        if not any(kept is tensor for kept, _ in self._tensors):
            with torch._C.DisableTorchFunction(), _disable_current_modes():
                self._tensors.append((tensor, tensor.detach()))

    def restore(self) -> None:
        """Restore the state at the time of the snapshot."""
        # Only inference mode allows writing to both inference tensors and ordinary tensors.
        with torch._C.DisableTorchFunction(), torch.inference_mode():
            self._restore()

    def _restore(self) -> None:
        is_same = operator.is_
        for _, current, saved in self._attributes:
            if (
                dict.__len__(current) != len(saved)
                or not all(map(is_same, dict.values(current), saved.values()))
                or not all(map(is_same, dict.keys(current), saved))
            ):
                _restore_mapping(current, saved)
        for sequence, items in self._sequences:
            held = list(_iterator(sequence))
            if len(held) != len(items) or not all(map(is_same, held, items)):
                sequence.clear()
                sequence.extend(items)
        for members, saved_members in self._sets:
            if {id(item) for item in set.__iter__(members)} != {id(item) for item in saved_members}:
                set.clear(members)
                set.update(members, saved_members)
        for holder, slots in self._slots:
            current = slots_of(holder)
            for name in current.keys() - slots.keys():
                object.__delattr__(holder, name)
            for name, value in slots.items():
                if current.get(name, _MISSING) is not value:
                    object.__setattr__(holder, name, value)
        for cell, content in self._cells:
            if cell.cell_contents is not content:
                cell.cell_contents = content
        for owner, variables in self._globals:
            for name, value in variables.items():
                if vars(owner.module).get(name, _MISSING) is not value:
                    vars(owner.module)[name] = value
        for module, attributes in self._scripted:
            restore_script_attributes(module, attributes)
        for tensor, alias in self._tensors:
            if (
                tensor.data_ptr() != alias.data_ptr()
                or tensor.stride() != alias.stride()
                or tensor.shape != alias.shape
            ):
                tensor.data = alias
        for flat, content in self._storages.values():
            if not torch.equal(flat, content):
                flat.copy_(content)
        for (kind, name), value in self._class_data.items():
            if kind.__dict__.get(name, _MISSING) is value:
                continue
            if value is _MISSING:
                type.__delattr__(kind, name)
            else:
                type.__setattr__(kind, name, value)
        for array, elements in self._arrays:
            if array.dtype.kind == "O" or not np.array_equal(array, elements, equal_nan=array.dtype.kind in "fc"):
                array[...] = elements
        for restore_generator in self._restore_generators:
            restore_generator()

    def changed_python_state(self) -> list[str]:
        """Plain numbers, strings and flags that changed since the snapshot, as `path: before -> now`."""
        changes = []
        for attr_path, current, saved in self._attributes:
            for key, before in saved.items():
                now = current.get(key)
                if isinstance(before, bool | int | float | str) and type(now) is type(before) and now != before:
                    changes.append(f"{attr_path}.{key}: {before!r} -> {now!r}")
        return changes

    def _keep_tensor(self, attr_path: str, value: torch.Tensor) -> None:
        if has_memory(value):
            self._tensors.append((value, value.detach()))
            self.protect(value)

    def _keep_array(self, attr_path: str, value: np.ndarray) -> None:
        if value.flags.writeable:
            self._arrays.append((value, value.copy()))

    def _keep_mapping(self, attr_path: str, value: dict[Any, Any]) -> None:
        self._attributes.append((attr_path, value, dict(dict.items(value))))

    def _keep_sequence(self, attr_path: str, value: Any) -> None:
        self._sequences.append((value, list(_iterator(value))))

    def _keep_cell(self, attr_path: str, value: types.CellType) -> None:
        self._cells.append((value, value.cell_contents))

    def _keep_set(self, attr_path: str, value: set[Any]) -> None:
        self._sets.append((value, set(set.__iter__(value))))

    def _keep_torch_generator(self, attr_path: str, value: torch.Generator) -> None:
        state = value.get_state()
        self._restore_generators.append(lambda: value.set_state(state))

    def _keep_numpy_generator(self, attr_path: str, value: np.random.Generator) -> None:
        self.generators.append(value)
        self._restore_generators.append(_numpy_restorer(value))

    def _keep_old_numpy_generator(self, attr_path: str, value: np.random.RandomState) -> None:
        self.generators.append(value)
        state = value.get_state()
        self._restore_generators.append(lambda: value.set_state(state))

    def _keep_python_generator(self, attr_path: str, value: random.Random) -> None:
        if isinstance(value, random.SystemRandom):
            return  # it has no state
        self.generators.append(value)
        state = value.getstate()
        self._restore_generators.append(lambda: value.setstate(state))

    def _keep_attributes(self, attr_path: str, value: object) -> None:
        attributes = instance_dict(value)
        if attributes or type(value).__dictoffset__:
            self._attributes.append((attr_path, attributes, dict(attributes)))

    def _keep_slots(self, attr_path: str, value: object) -> None:
        self._slots.append((value, slots_of(value)))
        self._keep_attributes(attr_path, value)

    def _keep_module(self, attr_path: str, value: torch.nn.Module) -> None:
        self._keep_slots(attr_path, value)
        for name in ("_parameters", "_buffers", "_modules"):
            part = instance_dict(value).get(name)
            if isinstance(part, dict):
                self._keep_mapping(attr_path, part)
        if isinstance(value, torch.jit.ScriptModule):
            self._scripted.append((value, script_attributes(value)))

    def _keep_globals(self, attr_path: str, value: ModuleGlobals) -> None:
        self._globals.append((value, value.variables))

    def _keep_class(self, attr_path: str, value: type) -> None:
        places = data_places(value)
        self._class_data.update({(owner, name): owner.__dict__.get(name, _MISSING) for name, owner in places})

    def _keep_nothing(self, attr_path: str, value: object) -> None:
        pass


_SAVERS: tuple[tuple[tuple[type, ...], Callable[[Snapshot, str, Any], None]], ...] = (
    ((torch.Tensor,), Snapshot._keep_tensor),
    ((np.ndarray,), Snapshot._keep_array),
    ((dict,), Snapshot._keep_mapping),
    ((list, collections.deque), Snapshot._keep_sequence),
    ((types.CellType,), Snapshot._keep_cell),
    ((set,), Snapshot._keep_set),
    ((torch.Generator,), Snapshot._keep_torch_generator),
    ((np.random.Generator,), Snapshot._keep_numpy_generator),
    ((np.random.RandomState,), Snapshot._keep_old_numpy_generator),
    ((random.Random,), Snapshot._keep_python_generator),
    ((torch.nn.Module,), Snapshot._keep_module),
    ((ModuleGlobals,), Snapshot._keep_globals),
    ((type,), Snapshot._keep_class),
    ((types.ModuleType,), Snapshot._keep_nothing),
)


@cached_by_type
def _savers_for(kind: type) -> tuple[Callable[[Snapshot, str, Any], None], ...]:
    """The methods that save objects of a type; a container or a tensor of an own class may have attributes as well."""
    is_own_tensor = issubclass(kind, torch.Tensor) and kind not in (torch.Tensor, torch.nn.Parameter)
    has_attributes = (issubclass(kind, (dict, list, collections.deque, set)) and kind.__dictoffset__) or is_own_tensor
    return (_saver_for(kind), Snapshot._keep_attributes) if has_attributes else (_saver_for(kind),)


def _saver_for(kind: type) -> Callable[[Snapshot, str, Any], None]:
    """The method that saves objects of a type."""
    for kinds, saver in _SAVERS:
        if issubclass(kind, kinds):
            return saver
    return Snapshot._keep_slots if has_slots(kind) else Snapshot._keep_attributes


class ProtectUnseen(TorchFunctionMode):
    """While active, adds every tensor passed to a torch function to a snapshot before the call."""

    def __init__(self, snapshot: Snapshot):
        super().__init__()
        self._snapshot = snapshot

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Protect the tensors among the arguments, then call the function."""
        kwargs = kwargs or {}
        if sets_data(func):
            self._snapshot.keep_memory_of(args[0])
        if func not in _READ_ONLY:
            for item in _tensors_in(args):
                self._snapshot.protect(item)
            for item in _tensors_in(kwargs.values()):
                self._snapshot.protect(item)
        return func(*args, **kwargs)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def sets_data(func: Callable[..., Any]) -> bool:
    """Whether a torch function is the assignment `x.data = y`, which gives a tensor other memory."""
    return bool(func == _SET_DATA)


def _tensors_in(arguments: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among arguments of a torch function; a general walk of each argument takes ten times as long."""
    for item in arguments:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, list | tuple):
            yield from _tensors_in(item)
        elif type(item) not in _WITHOUT_TENSORS:
            yield from (leaf for leaf in tree_iter(item) if isinstance(leaf, torch.Tensor))


def _iterator(sequence: Any) -> Iterator[Any]:
    """Iterate over a list or deque without calling methods of a user subclass."""
    return list.__iter__(sequence) if isinstance(sequence, list) else collections.deque.__iter__(sequence)


def _restore_mapping(current: dict[Any, Any], saved: dict[Any, Any]) -> None:
    if list(current) != list(saved):
        current.clear()
    for key, value in saved.items():
        if key not in current or current[key] is not value:
            current[key] = value


def _numpy_restorer(generator: np.random.Generator) -> Callable[[], object]:
    state = generator.bit_generator.state
    return lambda: setattr(generator.bit_generator, "state", state)


def _global_generators() -> list[Callable[[], object]]:
    torch_state = torch.get_rng_state()
    numpy_state = np.random.get_state()
    python_state = random.getstate()
    restorers: list[Callable[[], object]] = [
        lambda: torch.set_rng_state(torch_state),
        lambda: np.random.set_state(numpy_state),
        lambda: random.setstate(python_state),
    ]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        cuda_states = torch.cuda.get_rng_state_all()
        restorers.append(lambda: torch.cuda.set_rng_state_all(cuda_states))
    return restorers
