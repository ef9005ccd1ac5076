"""Which functions of user code run in one stage of an environment, and in no other."""

import gc
import inspect
import types
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from exploy.live.interception import functions_with, intercepted
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
    stages: Mapping[str, Callable[[], object]], methods: Mapping[str, object], restart: Callable[[], None]
) -> dict[str, list[StageFunction]]:
    """The functions that only one stage calls, for each stage, outermost first.

    Functions are found by the torch operators that they call, directly or not, and without a profiler. If a stage with
    a method of its own calls no operator, its functions are found by the names that its code contains.

    Args:
        stages: Functions that run the stages, in their order.
        methods: The method that user code implements for a stage, by stage.
        restart: Puts everything back, so that the stages can be run once more.

    Raises:
        Exception: Whatever the stages raise.
    """
    found = {name: _callers(stage, methods.get(name)) for name, stage in stages.items()}
    for name, callers in found.items():
        if callers.codes and not callers.of_all:
            callers.codes.update(_called_by_name(stages[name], list(callers.codes)))
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


def _called_by_name(stage: Callable[[], object], codes: list[types.CodeType]) -> dict[types.CodeType, None]:
    """Functions of user code that a stage calls, found by the names in the code of those that are known.

    Args:
        stage: Runs the stage.
        codes: The functions that are known to be called.
    """
    functions = [item for item in gc.get_objects() if type(item) is types.FunctionType]
    called: dict[types.CodeType, None] = dict.fromkeys(codes)
    tried = set(codes)
    for _ in range(_MOST_CALLS_DEEP):
        names = {name for code in called for name in code.co_names}
        candidates = {item.__code__ for item in functions if item.__code__.co_name in names} - tried
        candidates = {code for code in candidates if is_user_code(code)}
        entered: list[types.CodeType] = []
        with intercepted(functions_with(candidates), entered.append, lambda code: None):
            stage()
        if not entered:
            break
        tried |= candidates
        called |= dict.fromkeys(entered)
    return called


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
