"""Substitutes: code that can be captured, and stands for code that cannot, such as Warp kernels and ring buffers."""

import inspect
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from exploy.errors import ComponentError

Conversion = Callable[[Any], object]
RandomCall = Callable[[Any, torch.Generator], tuple[Any, ...]]

_MADE_BY_THE_ORIGINAL = ("__init__", "__new__")


@dataclass(frozen=True)
class CodePair:
    """A function of the original, and the function that is called in its place."""

    name: str
    original: types.FunctionType
    replacement: types.FunctionType


@dataclass(frozen=True, eq=False)
class Substitute:
    """Code that stands for other code; see `substitute()`.

    Attributes:
        name: The original, as `module.name`.
        replacement_name: The replacement, as `module.name`.
        pairs: The functions of the original, each with its replacement.
        owner: The class that is replaced; None for a function, method or property.
        from_original: Converts an instance of the class to the layout of the replacement.
        to_original: Converts it back.
        prepare: Called before each compared call, with its arguments.
        random_call: Makes up calls to compare.
        unread: Attributes that need not be the same, because no result depends on them.
    """

    name: str
    replacement_name: str
    pairs: tuple[CodePair, ...]
    owner: type | None = None
    from_original: Conversion | None = None
    to_original: Conversion | None = None
    prepare: Callable[..., object] | None = None
    random_call: RandomCall | None = None
    unread: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.replacement_name} for {self.name}"

    def stands_for(self, arguments: tuple[Any, ...]) -> bool:
        """Whether a call with these arguments is one to replace; a method of a base class has other callers too."""
        return self.owner is None or (bool(arguments) and issubclass(type(arguments[0]), self.owner))


def substitute(
    original: Any,
    replacement: Any,
    *,
    from_original: Conversion | None = None,
    to_original: Conversion | None = None,
    prepare: Callable[..., object] | None = None,
    random_call: RandomCall | None = None,
    unread: tuple[str, ...] = (),
) -> Substitute:
    """Name code that can be captured and that stands for code that cannot.

    Register it with `env.context_manager().add_substitute(…)`. During a check, an export and an evaluation, the
    replacement is called wherever the original would be. Before that, both run on random data and are compared. Then
    the original is put back, also after an error.

    Args:
        original: A function, a method (`Buffer.append`), a property (`Data.gravity`) or a class. It must be written in
            Python.
        replacement: A function with the same arguments. For a class, a class whose methods and properties are called
            in place of those with the same names; `self` stays the instance of the original.
        from_original: For a class, a function that is called with each instance when the substitute is put in, and
            after `__init__()`: it changes the state in place to what the methods of the replacement expect.
        to_original: The inverse. Needed with `from_original`. If nothing has been called in between, the state must be
            as before.
        prepare: Called with the arguments of each compared call before the call, for the original and for the
            replacement; for example to mark a cache as outdated.
        random_call: For a class, a function of an instance and a `torch.Generator` that returns a call to compare: the
            name of a method, property or operator, and its arguments. Such calls are made between those that the
            environment makes.
        unread: Names of attributes whose values may differ afterwards, because no result depends on them, such as
            frames of a buffer that a reset has made invalid.

    Raises:
        ComponentError: If the original or the replacement is not of these kinds, or they do not fit.
    """
    if isinstance(original, type):
        pairs = _pairs_of_classes(original, replacement)
        _require_conversions(original, from_original, to_original)
        owner: type | None = original
    else:
        if from_original or to_original or random_call:
            raise ComponentError(
                "from_original, to_original and random_call belong to the substitute of a class, but "
                f"{_described(original)} is no class. Pass the class as original."
            )
        pairs = (_pair_of_functions(original, replacement),)
        owner = None
    name = _qualified(original if owner is not None else pairs[0].original)
    replacement_name = _qualified(replacement if owner is not None else pairs[0].replacement)
    return Substitute(name, replacement_name, pairs, owner, from_original, to_original, prepare, random_call, unread)


def require_no_overlap(substitutes: Iterable[Substitute], added: Substitute) -> None:
    """Check that no function is replaced twice.

    Raises:
        ComponentError: If a registered substitute replaces one of the functions.
    """
    for known in substitutes:
        for pair in known.pairs:
            if any(pair.original is other.original for other in added.pairs):
                raise ComponentError(
                    f"{_qualified(pair.original)} is already replaced by {known.replacement_name}. "
                    "Add one substitute for each function."
                )


def _pair_of_functions(original: Any, replacement: Any) -> CodePair:
    function = _python_function(original)
    if function is None:
        raise ComponentError(
            f"The original must be a function, method, property or class that is written in Python, got "
            f"{_described(original)}. Substitute the Python function that calls it."
        )
    stand_in = _python_function(replacement)
    if stand_in is None:
        raise ComponentError(f"The replacement of a function must be a Python function, got {_described(replacement)}.")
    _require_arguments(function, stand_in)
    return CodePair(function.__name__, function, stand_in)


def _pairs_of_classes(original: type, replacement: Any) -> tuple[CodePair, ...]:
    if not isinstance(replacement, type):
        raise ComponentError(f"The replacement of a class must be a class, got {_described(replacement)}.")
    pairs = []
    for name, member in _members(replacement, original).items():
        stand_in = _python_function(member)
        if stand_in is None or isinstance(member, staticmethod | classmethod):
            continue
        if name in _MADE_BY_THE_ORIGINAL:
            raise ComponentError(
                f"{_qualified(replacement)} must not define {name}(): instances are made by the original. "
                "Pass from_original= to change their state."
            )
        known = inspect.getattr_static(original, name, None)
        function = _python_function(known)
        if function is None or isinstance(known, property) is not isinstance(member, property):
            kind = "property" if isinstance(member, property) else "method"
            raise ComponentError(
                f"{_qualified(replacement)} defines the {kind} {name}, but {_qualified(original)} has no {kind} of "
                "this name that is written in Python. Make it a function of the module, or a static method."
            )
        _require_arguments(function, stand_in)
        pairs.append(CodePair(name, function, stand_in))
    if not pairs:
        raise ComponentError(f"{_qualified(replacement)} defines no method or property, so it replaces nothing.")
    return tuple(pairs)


def _members(replacement: type, original: type) -> dict[str, Any]:
    """What a class and its bases define, but for those that the original has too."""
    bases = [base for base in reversed(replacement.__mro__) if base not in original.__mro__]
    return {name: member for base in bases for name, member in vars(base).items()}


def _require_conversions(original: type, from_original: Conversion | None, to_original: Conversion | None) -> None:
    if (from_original is None) != (to_original is None):
        raise ComponentError("from_original and to_original belong together: give both, or none.")
    if from_original is not None and _python_function(original.__init__) is None:  # type: ignore[misc]
        raise ComponentError(
            f"{_qualified(original)} has no __init__() that is written in Python, so new instances cannot be "
            "converted. Substitute single methods of it."
        )


def _require_arguments(original: types.FunctionType, replacement: types.FunctionType) -> None:
    """Check that the replacement can be called with the positional arguments of the original."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(original).parameters.values()
    needed = [item for item in parameters if item.kind in kinds and item.default is inspect.Parameter.empty]
    try:
        inspect.signature(replacement).bind(*needed)
    except TypeError as error:
        raise ComponentError(
            f"{_qualified(replacement)} cannot be called like {_qualified(original)}"
            f"{inspect.signature(original)}: {error}. Give it the same arguments."
        ) from error


def _python_function(member: Any) -> types.FunctionType | None:
    """The Python function behind a function, method or property; None if there is none."""
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return function if isinstance(function, types.FunctionType) else None


def _qualified(named: Any) -> str:
    return f"{named.__module__}.{named.__qualname__}"


def _described(value: Any) -> str:
    return repr(value) if len(repr(value)) < 80 else type(value).__name__
