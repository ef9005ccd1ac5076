"""A bounded walk over the attributes of live objects that does not run their code.

Properties are never evaluated. Only `__dict__`, `__slots__`, containers and, on request, closures are followed.
"""

import ast
import collections
import contextlib
import enum
import functools
import logging
import random
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from exploy.live.iterators import is_bare_iterator
from exploy.live.module_globals import ModuleGlobals
from exploy.live.scripted_modules import script_attributes

MAX_DEPTH = 64
MAX_OBJECTS = 200_000

_LEAVES = (
    str, bytes, bytearray, int, float, complex, bool, type(None), type, types.ModuleType, types.CodeType,
    torch.Tensor, torch.dtype, torch.device, torch.Generator, np.ndarray, np.generic, np.random.Generator,
    logging.Logger, threading.Thread, weakref.ref, types.CellType, random.Random, np.random.RandomState,
    enum.Enum,
)  # fmt: skip
_MODULES_OF_LEAVES = frozenset(  # kernels of Warp and their syntax trees, which lead to all others
    {"warp.context", "warp._src.context", "warp._src.codegen"}
)
_SCALARS = frozenset({str, bytes, int, float, complex, bool, type(None)})
_SCALAR_IDS = frozenset(id(kind) for kind in _SCALARS)  # a metaclass may make a type unhashable
_CONTAINERS = (
    dict, types.MappingProxyType, list, tuple, set, collections.deque,
    types.MethodType, types.FunctionType, functools.partial,
)  # fmt: skip
_DATA = (bool, int, float, str, type(None), torch.Tensor, np.ndarray, list, dict)
_LIBRARIES = frozenset({"torch", "numpy"})
_MODULE_DICTS = ("_parameters", "_buffers", "_modules")
_MISSING = object()


Answer = TypeVar("Answer")


def cached_by_type(question: Callable[[type], Answer]) -> Callable[[type], Answer]:
    """Cache a function of a type by the identity of the type, because a metaclass may not be hashable."""
    known: dict[int, tuple[type, Answer]] = {}

    def ask(kind: type) -> Answer:
        entry = known.get(id(kind))
        if entry is None:
            entry = known[id(kind)] = (kind, question(kind))
        return entry[1]

    return ask


def is_a(value: object, kinds: type | tuple[type, ...] | types.UnionType) -> bool:
    """Like isinstance(), but ignores `__class__` of the object, which a proxy may override."""
    return issubclass(type(value), kinds)


class Found(NamedTuple):
    """An object found by the walk, and its path as a Python expression."""

    attr_path: str
    value: Any


def walk(roots: dict[str, object], *, closures: bool = False, skip: tuple[type, ...] = ()) -> Iterator[Found]:
    """Yield every object that can be reached from the roots, each once, nearest first.

    Objects beyond the limits MAX_OBJECTS and MAX_DEPTH are not found.

    Args:
        roots: Objects to start from, by the first name of their paths.
        closures: Also follow captured variables of functions.
        skip: Types whose instances are not entered.
    """
    queue = collections.deque((Found(name, value), 0) for name, value in roots.items())
    seen = {id(value): value for value in roots.values()}
    is_entered: dict[int, bool] = {}  # by type
    while queue:
        found, depth = queue.popleft()
        yield found
        if depth == MAX_DEPTH or len(seen) == MAX_OBJECTS:
            continue
        kind = type(found.value)
        if id(kind) not in is_entered:
            is_entered[id(kind)] = issubclass(kind, type) or not (_is_leaf(kind) or issubclass(kind, skip))
        if not is_entered[id(kind)]:
            continue
        for child in _children(found, closures):
            if id(child.value) not in seen and len(seen) < MAX_OBJECTS:
                seen[id(child.value)] = child.value
                queue.append((child, depth + 1))


def state_of(value: object) -> dict[str, Any]:
    """The attributes of an object, from `__dict__` and `__slots__`, and the data of its class."""
    return {**class_data(type(value)), **slots_of(value), **instance_dict(value)}


def slots_of(value: object) -> dict[str, Any]:
    """The attributes of an object that are defined in `__slots__` and are set."""
    state: dict[str, Any] = {}
    for slot in _slots(type(value)):
        with contextlib.suppress(AttributeError):
            state[slot.__name__] = slot.__get__(value)
    return state


def has_slots(kind: type) -> bool:
    """Whether a class declares any slots."""
    return bool(_slots(kind))


def class_data(kind: type) -> dict[str, Any]:
    """The data attributes of a user class, such as numbers, tensors and lists; no functions or descriptors."""
    return {name: owner.__dict__[name] for name, owner in data_places(kind) if name in owner.__dict__}


def class_holding(kind: type, name: str) -> type | None:
    """The class among a class and its bases from which a data attribute comes now; None if it has no such data."""
    owners = (owner for place, owner in reversed(data_places(kind)) if place == name and name in owner.__dict__)
    return next(owners, None)


def instance_dict(value: object) -> dict[str, Any]:
    """The `__dict__` of an object (not a copy), or an empty dictionary if it has none."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except Exception:  # missing, or computed by the class
        return {}
    return attributes if type(attributes) is dict else {}


@cached_by_type
def data_places(kind: type) -> tuple[tuple[str, type], ...]:
    """Names of the data attributes of a class, each with all classes that may define it; library classes are skipped.

    Bases come first. Code may set an attribute on a class that a base defines (`type(self).t += 1`).
    """
    owners = [owner for owner in reversed(kind.__mro__) if not _is_of_a_library(owner)]
    names = dict.fromkeys(
        name
        for owner in owners
        for name, value in owner.__dict__.items()
        if not name.startswith(("__", "_abc_")) and (is_a(value, _DATA) or _is_instance_of_user(value))
    )
    return tuple((name, owner) for owner in owners for name in names)


def _is_instance_of_user(value: object) -> bool:
    """Whether an attribute of a class is an object with state, such as a singleton; not a function or descriptor."""
    kind = type(value)
    is_code = is_a(value, (type, enum.Enum)) or any(
        name in vars(owner) for owner in kind.__mro__ for name in ("__get__", "__set__", "__call__")
    )
    return bool(kind.__dictoffset__) and not is_code and not _is_of_a_library(kind)


def _is_of_a_library(kind: type) -> bool:
    module = str(kind.__module__)
    root = module.partition(".")[0]
    return root in _LIBRARIES or root in sys.stdlib_module_names or _is_own(module)


def _is_own(module: str) -> bool:
    """Whether a module belongs to exploy. The demo and the adapters of simulators count as user code."""
    return module.startswith("exploy.") and not module.startswith(("exploy.demo.", "exploy.simulators."))


@cached_by_type
def _slots(kind: type) -> tuple[types.MemberDescriptorType, ...]:
    slots = []
    for owner in kind.__mro__:
        names = owner.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            slot = owner.__dict__.get(name)
            if isinstance(slot, types.MemberDescriptorType):
                slots.append(slot)
    return tuple(slots)


@cached_by_type
def _is_leaf(kind: type) -> bool:
    return issubclass(kind, _LEAVES) or str(kind.__module__) in _MODULES_OF_LEAVES


@cached_by_type
def _is_empty(kind: type) -> bool:
    """Whether instances of a type are numbers, strings or None, or have no attributes or items."""
    if kind in _SCALARS:
        return True
    is_known = issubclass(kind, (*_LEAVES, *_CONTAINERS)) or is_bare_iterator(kind)
    return not (kind.__dictoffset__ or _slots(kind) or is_known)


def resolve(root: object, attr_path: str) -> Any:
    """Return the current object at a path of a walk, starting from its root; None if not found."""
    value, steps = root, _steps(attr_path)
    if steps is None:
        return None
    for is_attribute, name in steps:
        value = _attribute(value, name) if is_attribute else _item(value, name)
        if value is _MISSING:
            return None
    return value


def resolve_in(roots: dict[str, object], attr_path: str) -> Any:
    """Return the current object at a path, starting from the root that the path names; None if not found."""
    root = re.split(r"[.\[]", attr_path, maxsplit=1)[0]
    return resolve(roots[root], attr_path) if root in roots else None


def key_types(roots: dict[str, object], attr_path: str) -> list[type]:
    """The enumerations whose members are keys in a path."""
    found: list[type] = []
    value = roots.get(re.split(r"[.\[]", attr_path, maxsplit=1)[0])
    for is_attribute, name in _steps(attr_path) or ():
        if isinstance(name, KeyText):
            found.append(type(actual_key(value, name)))
        value = _attribute(value, name) if is_attribute else _item(value, name)
    return list(dict.fromkeys(found))


def can_be_followed(attr_path: str) -> bool:
    """Whether a path is a Python expression of only attribute names and literal keys."""
    return _steps(attr_path) is not None


@functools.lru_cache(maxsize=100_000)
def _steps(attr_path: str) -> tuple[tuple[bool, Any], ...] | None:
    """The steps of a path after its root: (is an attribute, its name or key); None if the path is invalid."""
    steps: list[tuple[bool, Any]] = []
    try:
        node = ast.parse(attr_path, mode="eval").body
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                steps.append((True, node.attr))
            elif isinstance(node, ast.Subscript):
                steps.append((False, parsed_key(node.slice)))
            else:
                return None
            node = node.value
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return tuple(reversed(steps))


class KeyText(NamedTuple):
    """A key of a dictionary that is not a literal, such as a member of an enumeration, as it stands in a path."""

    text: str


def parsed_key(node: ast.expr) -> Any:
    """The key that an index of a path stands for."""
    is_name = isinstance(node, ast.Attribute | ast.Name)
    return KeyText(ast.unparse(node)) if is_name else ast.literal_eval(node)


def _attribute(value: object, name: str) -> Any:
    state = state_of(value)
    if is_a(value, torch.jit.ScriptModule):
        state = state | script_attributes(value)  # type: ignore[arg-type]
    if is_a(value, type):
        state = class_data(value)  # type: ignore[arg-type]
    if name in state:
        return state[name]
    for part in _MODULE_DICTS if isinstance(value, torch.nn.Module) else ():
        if name in (state.get(part) or {}):
            return state[part][name]
    return _MISSING


def _item(value: Any, key: object) -> Any:
    try:
        return value[actual_key(value, key)]
    except Exception:
        return _MISSING


def actual_key(value: Any, key: Any) -> Any:
    """The key of a container that a path has; a member of an enumeration is looked up among the keys.

    Raises:
        KeyError: If there is no such member.
    """
    if not isinstance(key, KeyText):
        return key
    for candidate in value if is_a(value, dict | types.MappingProxyType) else ():
        if is_a(candidate, enum.Enum) and key_text(candidate) == key.text:
            return candidate
    raise KeyError(key.text)


@cached_by_type
def _is_simple(kind: type) -> bool:
    """Whether instances of a type store everything in their `__dict__`."""
    return not (has_slots(kind) or data_places(kind) or issubclass(kind, (*_CONTAINERS, torch.nn.Module)))


@cached_by_type
def _parts_of(kind: type) -> Callable[[str, Any], Iterable[tuple[str, Any]]]:
    """Return a function that lists the parts of an object of a type, by path, without running its code."""
    for kinds, parts in (
        (
            dict,
            lambda attr_path, value: ((f"{attr_path}[{key_text(key)}]", item) for key, item in list(dict.items(value))),
        ),
        (
            types.MappingProxyType,
            lambda attr_path, value: ((f"{attr_path}[{key_text(key)}]", item) for key, item in value.items()),
        ),
        (list, lambda attr_path, value: _numbered(attr_path, list.__iter__(value))),
        (tuple, lambda attr_path, value: _numbered(attr_path, tuple.__iter__(value))),
        (collections.deque, lambda attr_path, value: _numbered(attr_path, collections.deque.__iter__(value))),
        (torch.nn.Module, _parts_of_module),
        (
            ModuleGlobals,
            lambda attr_path, value: ((f"{attr_path}.{key}", item) for key, item in value.variables.items()),
        ),
    ):
        if issubclass(kind, kinds):
            return parts
    return lambda attr_path, value: ((f"{attr_path}.{name}", item) for name, item in state_of(value).items())


def _numbered(attr_path: str, items: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"{attr_path}[{index}]", item) for index, item in enumerate(items))


def key_text(key: object) -> str:
    """A key of a dictionary as it stands in a path."""
    try:
        if is_a(key, enum.Enum) and "<" not in type(key).__qualname__:
            return f"{type(key).__qualname__}.{key.name}"  # type: ignore[attr-defined]
        return repr(key)
    except Exception:
        return f"<{type(key).__name__}>"


def _children(found: Found, closures: bool) -> Iterable[Found]:
    """The non-empty parts of an object."""
    attr_path, value = found
    kind = type(value)
    if issubclass(kind, type):
        data = class_data(value).items()
        return [Found(f"{attr_path}.{name}", item) for name, item in data if not _holds_nothing(item)]
    if _is_simple(kind):
        attributes = instance_dict(value).items()
        return [Found(f"{attr_path}.{name}", item) for name, item in attributes if not _holds_nothing(item)]
    if kind is list or kind is tuple:
        return [Found(f"{attr_path}[{index}]", item) for index, item in enumerate(value) if not _holds_nothing(item)]
    if kind is dict:
        items = list(value.items())
        return [Found(f"{attr_path}[{key_text(key)}]", item) for key, item in items if not _holds_nothing(item)]
    if issubclass(kind, (types.MethodType, types.FunctionType, functools.partial)):
        return _captured(found) if closures else []
    parts = [Found(where, item) for where, item in _parts_of(kind)(attr_path, value) if not _holds_nothing(item)]
    if kind.__dictoffset__ and issubclass(kind, _CONTAINERS):  # for example, a dictionary subclass with attributes
        attributes = instance_dict(value).items()
        parts += [Found(f"{attr_path}.{name}", item) for name, item in attributes if not _holds_nothing(item)]
    return parts


def _holds_nothing(item: object) -> bool:
    return id(type(item)) in _SCALAR_IDS or _is_empty(type(item))


def _captured(found: Found) -> list[Found]:
    """The objects that a function, method or partial holds."""
    attr_path, value = found
    if isinstance(value, types.MethodType):
        return [Found(attr_path, value.__self__)]
    if isinstance(value, functools.partial):
        return [Found(attr_path, (value.func, value.args, value.keywords))]
    return _closure(found)


def _parts_of_module(attr_path: str, module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    state = dict(state_of(module))
    if isinstance(module, torch.jit.ScriptModule):
        state |= script_attributes(module)
    parts = [state.pop(name, None) for name in _MODULE_DICTS]
    named = {key: item for part in parts if isinstance(part, dict) for key, item in part.items()}
    return ((_module_path(attr_path, module, name), item) for name, item in {**state, **named}.items())


def _module_path(attr_path: str, module: torch.nn.Module, name: str) -> str:
    """The path of a part of a module. Module containers use an index or key."""
    if isinstance(module, torch.nn.Sequential | torch.nn.ModuleList | torch.nn.ParameterList) and name.isdigit():
        return f"{attr_path}[{int(name)}]"
    if isinstance(module, torch.nn.ModuleDict) and name in module._modules:
        return f"{attr_path}[{name!r}]"
    return f"{attr_path}.{name}"


def _closure(found: Found) -> list[Found]:
    function: types.FunctionType = found.value
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    children = []
    for name, cell in cells:
        with contextlib.suppress(ValueError):
            children += [Found(name, cell), Found(name, cell.cell_contents)]
    children.extend(Found(found.attr_path, default) for default in function.__defaults__ or ())
    return children
