"""Finds the functions of a library's module, and the calls that try all that they can be asked for."""

import functools
import importlib
import inspect
import itertools
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tests.support.function_runs import Call, Draw


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function; `choices` are the values that its type lists, if it does."""

    name: str
    has_default: bool
    default: Any
    choices: tuple[Any, ...]


@dataclass(frozen=True)
class Function:
    """A function of a library, scripted or not, with what its signature says; or a class whose objects are called."""

    module: str
    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]
    returns_nothing: bool

    @property
    def is_class(self) -> bool:
        """Whether it is a class: a term with state."""
        return inspect.isclass(self.function)

    @property
    def reads_environment(self) -> bool:
        """Whether it is a term that takes an environment."""
        return any(parameter.name == "env" for parameter in self.parameters)


def modules_named(package: ModuleType, *endings: str) -> list[ModuleType]:
    """All modules of a package whose path ends in one of these names, such as "mdp/observations.py"."""
    folder = Path(str(package.__file__)).parent
    paths = sorted(path.relative_to(folder.parent) for path in folder.rglob("*.py"))
    chosen = [path for path in paths if path.as_posix().endswith(endings)]
    return [importlib.import_module(".".join(path.with_suffix("").parts)) for path in chosen]


def functions_of(module: ModuleType) -> list[Function]:
    """All functions that a module defines itself, and classes whose objects are called, in its order."""
    return [
        Function(module.__name__, name, item, tuple(_parameters(item)), _returns_nothing(item))
        for name, item in vars(module).items()
        if _is_called(_unscripted(item)) and _unscripted(item).__module__ == module.__name__
    ]


def _is_called(item: Any) -> bool:
    return inspect.isfunction(item) or (
        inspect.isclass(item) and any("__call__" in vars(kind) for kind in item.__mro__)
    )


def _unscripted(item: Any) -> Any:
    return getattr(item, "_torchdynamo_inline", None) if isinstance(item, torch.jit.ScriptFunction) else item


def _returns_nothing(item: Any) -> bool:
    return inspect.signature(_unscripted(item)).return_annotation in ("None", None)


def _parameters(item: Any) -> Iterator[Parameter]:
    function = item.__init__ if inspect.isclass(item) else _unscripted(item)
    names = dict(vars(typing)) | dict(vars(inspect.getmodule(function) or typing))
    for parameter in inspect.signature(function).parameters.values():
        annotation = _evaluated(parameter.annotation, function.__globals__ | {"torch": torch}, names)
        has_default = parameter.default is not inspect.Parameter.empty
        yield Parameter(parameter.name, has_default, parameter.default, _choices(annotation))


def _evaluated(annotation: Any, global_names: Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, dict(global_names), dict(names))
    except (NameError, TypeError):  # a name for type checkers only, or `torch.tensor | None`
        return None


def _choices(annotation: Any) -> tuple[Any, ...]:
    if annotation is bool:
        return (False, True)
    if typing.get_origin(annotation) is typing.Literal:
        return typing.get_args(annotation)
    return ()


@dataclass(frozen=True)
class Values:
    """What a table gives for a parameter: values to try in turn, tensors among them as draws."""

    items: tuple[Any, ...]


def calls_of(function: Function, table: Mapping[str, Any]) -> list[Call]:
    """Calls with all choices of a function; raises LookupError for a parameter that neither table nor default gives.

    The table gives values by "FUNCTION.PARAMETER" or by "PARAMETER": a draw of a tensor, a value, or Values.
    """
    given = [parameter_values(function, parameter, table) for parameter in function.parameters]
    return [_call(function, choice) for choice in itertools.product(*given)]


def parameter_values(function: Function, parameter: Parameter, table: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of a parameter to try; raises LookupError if neither table nor signature gives one."""
    for key in (f"{function.name}.{parameter.name}", parameter.name):
        if key in table:
            found = table[key]
            items = found.items if isinstance(found, Values) else (found,)
            is_optional = parameter.has_default and parameter.default is None and any(map(inspect.isfunction, items))
            return (*items, None) if is_optional else items
    if parameter.choices:
        return parameter.choices
    if parameter.has_default:
        return (parameter.default,)
    raise LookupError(f"say what `{parameter.name}` of {function.module}.{function.name} is like")


def _call(function: Function, choice: tuple[Any, ...]) -> Call:
    generator = torch.Generator().manual_seed(0)
    draws: dict[str, Draw] = {}
    arguments: dict[str, Any] = {}
    for parameter, value in zip(function.parameters, choice, strict=True):
        if inspect.isfunction(value):
            draws[parameter.name] = value
            arguments[parameter.name] = value(generator)
        else:
            arguments[parameter.name] = value
    said = [f"{name}={value}" for name, value in arguments.items() if name not in draws]
    return Call(
        f"{function.name}({', '.join(said)})",
        {name: arguments[name] for name in draws},
        functools.partial(function.function, **arguments),
        draws,
    )
