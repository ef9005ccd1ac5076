"""Module globals that the methods of an environment read or write, as objects that can be walked like others."""

import dis
import enum
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from exploy.live.attribute_reads import codes_of_class
from exploy.live.location import is_installed, is_user_code

_GLOBAL_READS = ("LOAD_GLOBAL", "STORE_GLOBAL", "LOAD_NAME")
_RESERVED = ("env", "actor", "torch")
_DATA_OF_LIBRARIES = (torch.Tensor, torch.nn.Module, np.ndarray, np.generic)
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)


class ModuleGlobals:
    """Some global variables of a module. Its `__dict__` is that of the module; `names` are the variables that count.

    Args:
        module: The module.
        names: Names of the variables.
    """

    __slots__ = ("__dict__", "module", "names")

    def __init__(self, module: types.ModuleType, names: tuple[str, ...]):
        self.module = module
        self.names = names
        self.__dict__ = module.__dict__

    @property
    def variables(self) -> dict[str, Any]:
        """The current values of the variables that exist, by name."""
        return {name: self.__dict__[name] for name in self.names if name in self.__dict__}

    def import_line(self, root: str) -> str:
        """The line that makes the module available under the first name of its paths."""
        return f"import {self.module.__name__} as {root}"


_known: dict[tuple[type, ...], dict[str, ModuleGlobals]] = {}


def globals_read_by(kinds: Iterable[type]) -> dict[str, ModuleGlobals]:
    """The globals that methods of some classes use, and functions of the same modules that these call.

    Functions, classes and modules are left out.

    Returns:
        One object for each module, by the first name of its paths.
    """
    key = tuple(kinds)
    if key not in _known:
        _known[key] = _globals_read_by(key)
    return _known[key]


def _globals_read_by(kinds: tuple[type, ...]) -> dict[str, ModuleGlobals]:
    found: dict[str, ModuleGlobals] = {}
    files = {getattr(item, "__file__", None): item for item in list(sys.modules.values())}
    by_module: dict[str, list[types.CodeType]] = {}
    for code in dict.fromkeys(code for kind in kinds for code in codes_of_class(kind)):
        module = files.get(code.co_filename)
        if module is not None:
            by_module.setdefault(module.__name__, []).append(code)
    for name, codes in by_module.items():
        module = sys.modules[name]
        names = tuple(dict.fromkeys(_names(codes, vars(module))))
        if names:
            last = name.rpartition(".")[2].strip("_")
            root = f"{last}_module" if last in _RESERVED or last in found or last.startswith("module_") else last
            found[root] = ModuleGlobals(module, names)
    return found


def _names(codes: list[types.CodeType], variables: dict[str, Any]) -> Iterator[str]:
    """Names of the globals that hold data, which some functions use, or functions that they call."""
    queue = list(codes)
    for code in queue:
        queue += [item for item in code.co_consts if isinstance(item, types.CodeType)]
        for instruction in dis.get_instructions(code):
            if instruction.opname not in _GLOBAL_READS or instruction.argval not in variables:
                continue
            value = variables[instruction.argval]
            if isinstance(value, types.FunctionType) and is_user_code(value.__code__) and value.__code__ not in queue:
                queue.append(value.__code__)
            elif _is_data(value) and not instruction.argval.startswith("__"):
                yield instruction.argval


def _is_data(value: object) -> bool:
    """Whether a global is data of the user: no code, and no object that a library keeps for itself."""
    if isinstance(value, type):
        return _is_user_class(value)
    if isinstance(value, _CODE):
        return False
    file = getattr(sys.modules.get(str(type(value).__module__)), "__file__", None) or ""
    return isinstance(value, _DATA_OF_LIBRARIES) or not is_installed(file)


def _is_user_class(value: type) -> bool:
    """Whether a global is a class of user code, which may hold a singleton."""
    if issubclass(value, enum.Enum):
        return False
    return next(codes_of_class(value), None) is not None
