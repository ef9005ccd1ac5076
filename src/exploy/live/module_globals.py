"""Module globals that the code of an environment reads or writes, as objects that can be walked like others."""

import enum
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

import numpy as np
import torch

from exploy.live.attribute_reads import codes_of_class
from exploy.live.location import is_installed, is_internal, is_user_code

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


def globals_used_by(codes: Iterable[types.CodeType]) -> dict[str, ModuleGlobals]:
    """The globals that some functions use, and that functions of user code use which these call.

    Functions and modules are left out. A global counts as used if its name appears in the code.

    Returns:
        One object for each module, by the first name of its paths.
    """
    modules = {getattr(item, "__file__", None): item for item in list(sys.modules.values())}
    used: dict[str, dict[str, None]] = {}
    queue = list(dict.fromkeys(codes))
    seen = set(queue)
    for code in queue:
        called = [item for item in code.co_consts if isinstance(item, types.CodeType)]
        for module, name in _globals_named_in(code, modules.get(code.co_filename)):
            value = vars(module)[name]
            if isinstance(value, types.FunctionType):
                called.append(value.__code__)
            elif not name.startswith("__") and _is_data(value):
                used.setdefault(module.__name__, {})[name] = None
        new = [item for item in dict.fromkeys(called) if item not in seen and is_user_code(item)]
        queue += new
        seen.update(new)
    return _by_root(used)


def _globals_named_in(code: types.CodeType, module: types.ModuleType | None) -> Iterator[tuple[types.ModuleType, str]]:
    """The globals of the function's own module and of modules of user code that it uses."""
    if module is None:
        return
    variables = vars(module)
    for name in code.co_names:
        if name not in variables:
            continue
        yield module, name
        other = variables[name]
        if _is_user_module(other):
            yield from ((other, attribute) for attribute in code.co_names if attribute in vars(other))


def _is_user_module(value: object) -> TypeGuard[types.ModuleType]:
    file = getattr(value, "__file__", None) if isinstance(value, types.ModuleType) else None
    return isinstance(file, str) and not is_internal(file)


def _by_root(used: dict[str, dict[str, None]]) -> dict[str, ModuleGlobals]:
    found: dict[str, ModuleGlobals] = {}
    for name, names in used.items():
        last = name.rpartition(".")[2].strip("_")
        root = last
        if last in _RESERVED or last in found or last.startswith("module_"):
            root = f"{last}_module" if f"{last}_module" not in found else name.replace(".", "_")
        found[root] = ModuleGlobals(sys.modules[name], tuple(names))
    return found


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
