"""Which functions of user code run in one stage of an environment, and in no other."""

import inspect
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from exploy.live.interception import functions_with, intercepted, is_plain
from exploy.live.location import calling_codes, is_user_code

_MOST_CALLS_DEEP = 10


@dataclass(frozen=True)
class StageFunction:
    """A function that only one stage calls.

    Args:
        code: The code of the function.
        calls: How often one run of the stage calls it.
        does_all: Whether all torch operators of the stage run inside of it.
        functions: The functions that have this code: several if it is a closure that was created more than once.
    """

    code: types.CodeType
    calls: int
    does_all: bool
    functions: tuple[types.FunctionType, ...]


def functions_of_stages(
    stages: Mapping[str, Callable[[], object]],
    methods: Mapping[str, object],
    kinds: Iterable[type],
    restart: Callable[[], None],
) -> dict[str, list[StageFunction]]:
    """The functions that only one stage calls, for each stage, outermost first.

    Functions are found by the torch operators that they call, directly or not, and without a profiler. If a stage with
    a method of its own calls no operator, its functions are found by the names that its code contains.

    Args:
        stages: Functions that run the stages, in their order.
        methods: The method that user code implements for a stage, by stage.
        kinds: Classes of the objects that the stages may use.
        restart: Puts everything back, so that the stages can be run once more.

    Raises:
        Exception: Whatever the stages raise.
    """
    found = {name: _callers(stage, methods.get(name)) for name, stage in stages.items()}
    unclear = {name: callers for name, callers in found.items() if callers.codes and not callers.of_all}
    known = functions_with(code for callers in unclear.values() for code in callers.codes)
    for name, callers in unclear.items():
        functions = [item for item in known if item.__code__ in callers.codes]
        callers.codes.update(_called_by_name(stages[name], functions, kinds))
    restart()
    candidates = {
        name: [
            code for code in callers.codes if not any(code in found[other].codes for other in found if other != name)
        ]
        for name, callers in found.items()
    }
    functions = functions_with(code for codes in candidates.values() for code in codes)
    counts = _calls(functions, stages)
    return {
        name: [
            StageFunction(
                code,
                counts[name][code],
                code in found[name].of_all,
                tuple(item for item in functions if item.__code__ == code),
            )
            for code in codes
            if counts[name][code] and not any(counts[other][code] for other in stages if other != name)
        ]
        for name, codes in candidates.items()
    }


def codes_called_by(function: Callable[[], object]) -> list[types.CodeType]:
    """The functions of user code that call torch operators while a function runs, outermost first.

    Raises:
        Exception: Whatever the function raises.
    """
    return list(_callers(function, None).codes)


class _Callers(TorchDispatchMode):
    """Notes the functions of user code inside of which torch operators are called."""

    def __init__(self, method: object) -> None:
        super().__init__()
        code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
        own = [code] if isinstance(code, types.CodeType) and is_user_code(code) else []
        self.codes: dict[types.CodeType, None] = dict.fromkeys(own)
        self.of_all: set[types.CodeType] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note who calls an operator, and run it."""
        callers = calling_codes()
        self.codes.update(dict.fromkeys(callers))
        self.of_all = set(callers) if self.of_all is None else self.of_all.intersection(callers)
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class _Found:
    codes: dict[types.CodeType, None]
    of_all: set[types.CodeType]


def _callers(stage: Callable[[], object], method: object) -> _Found:
    outside = set(calling_codes())
    with _Callers(method) as callers:
        stage()
    codes = {code: None for code in callers.codes if code not in outside}
    return _Found(codes, (callers.of_all or set()) - outside)


def _called_by_name(
    stage: Callable[[], object], known: list[types.FunctionType], kinds: Iterable[type]
) -> dict[types.CodeType, None]:
    """Functions of user code that a stage calls, found by the names in the code of those that are known.

    Args:
        stage: Runs the stage.
        known: The functions that are known to be called.
        kinds: Classes whose methods may be called.
    """
    methods = _methods(kinds)
    called: dict[types.CodeType, None] = {}
    tried = {function.__code__ for function in known}
    for _ in range(_MOST_CALLS_DEEP):
        candidates = {id(item): item for function in known for item in _may_call(function, methods)}
        new = [item for item in candidates.values() if item.__code__ not in tried]
        entered: list[types.CodeType] = []
        with intercepted(new, entered.append, lambda code: None):
            stage()
        if not entered:
            break
        tried.update(item.__code__ for item in new)
        known = [item for item in new if item.__code__ in entered]
        called |= dict.fromkeys(entered)
    return called


def _methods(kinds: Iterable[type]) -> dict[str, list[types.FunctionType]]:
    """The methods and properties of classes and their bases, by name."""
    methods: dict[str, list[types.FunctionType]] = {}
    owners = {id(owner): owner for kind in kinds for owner in kind.__mro__}
    for owner in owners.values():
        for name, item in list(vars(owner).items()):
            function = _function(item)
            if function is not None:
                methods.setdefault(name, []).append(function)
    return methods


def _may_call(
    function: types.FunctionType, methods: Mapping[str, list[types.FunctionType]]
) -> Iterator[types.FunctionType]:
    """The functions that a function may call: methods, globals and closures that bear a name in its code."""
    names = function.__code__.co_names
    held = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    for name in names:
        yield from methods.get(name, ())
        held.append(function.__globals__.get(name))
    for item in held:
        holder = vars(item) if isinstance(item, types.ModuleType | type) else {}
        for found in (item, *(holder[name] for name in names if name in holder)):
            called = _function(found)
            if called is not None:
                yield called


def _function(item: object) -> types.FunctionType | None:
    """The function of user code behind a method, property or function, if it can be intercepted."""
    if isinstance(item, property):
        item = item.fget
    item = getattr(item, "__func__", item)
    is_plain_function = isinstance(item, types.FunctionType) and is_plain(item.__code__) and is_user_code(item.__code__)
    return item if is_plain_function else None  # type: ignore[return-value]


def _calls(
    functions: list[types.FunctionType], stages: Mapping[str, Callable[[], object]]
) -> dict[str, Counter[types.CodeType]]:
    """How often each stage calls each function."""
    counts: Counter[types.CodeType] = Counter()
    found: dict[str, Counter[types.CodeType]] = {}

    def count(code: types.CodeType) -> None:
        counts[code] += 1

    with intercepted(functions, count, lambda code: None):
        for name, stage in stages.items():
            before = counts.copy()
            stage()
            found[name] = counts - before
    return found
