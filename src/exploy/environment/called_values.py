"""Inputs that are the results of calls: functions that return a new tensor each time."""

import contextlib
import inspect
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from exploy.environment.exchanged_code import calls_replaced
from exploy.errors import ComponentError


class CalledValue:
    """The result of a method, a property or a function, held in one tensor.

    The tensor is filled by a call of the environment's own function at each `fetch()`. While the calls are replaced,
    the environment gets copies of the tensor instead. If the tensor was written to, it keeps what was written.

    Args:
        call: The owner, the name of its method or property, and the arguments of the call, if there are any.

    Raises:
        ComponentError: If there is no such Python function.
    """

    def __init__(self, call: tuple[Any, ...]):
        if not isinstance(call, tuple) or len(call) < 2 or not isinstance(call[1], str):
            raise ComponentError(
                "`call` must be a tuple of an object, the name of its method or property, and the arguments of the "
                f'call, such as (robot, "get_dofs_position"); got {call!r}.'
            )
        self.owner, self.name, *self.arguments = call
        self.function, self._is_property = _function(self.owner, self.name)
        self._held: torch.Tensor | None = None
        self._found: torch.Tensor | None = None
        self._is_replaced = False

    def fetch(self) -> torch.Tensor:
        """The tensor that holds the value, which is up to date unless it was written to or calls are replaced.

        Raises:
            ComponentError: If the call does not return a tensor.
        """
        if self._held is None or not (self._is_replaced or self._is_written):
            self._refresh()
        assert self._held is not None
        return self._held

    @contextlib.contextmanager
    def replaced(self) -> Iterator[None]:
        """Give copies of the tensor to whoever makes the call; nothing is done if the call is already replaced."""
        if self._is_replaced:
            yield
            return
        self.fetch()
        self._is_replaced = True
        try:
            with calls_replaced(self.function, self._answer):
                yield
        finally:
            self._is_replaced = False

    @property
    def _is_written(self) -> bool:
        """Whether the tensor has other values than the call has returned."""
        assert self._held is not None and self._found is not None
        if torch.equal(self._held, self._found):  # the usual, quickly
            return False
        same = (self._held == self._found) | ((self._held != self._held) & (self._found != self._found))
        return not bool(same.all())

    def _refresh(self) -> None:
        attribute = getattr(self.owner, self.name)
        value = attribute if self._is_property else attribute(*self.arguments)
        if not isinstance(value, torch.Tensor):
            raise ComponentError(
                f"{type(self.owner).__name__}.{self.name} must return a torch.Tensor, got {type(value).__name__}. "
                "Write a method that returns it as a tensor, let the environment call that, and register that."
            )
        value = value.detach()
        if self._held is None or (value.shape, value.dtype) != (self._held.shape, self._held.dtype):
            with torch.inference_mode(False):
                self._held, self._found = value.clone(), value.clone()
            return
        assert self._found is not None
        with torch.inference_mode():  # allows writing to inference tensors and to others
            self._held.copy_(value)
            self._found.copy_(value)

    def _answer(self, original: types.FunctionType, *args: Any, **kwargs: Any) -> Any:
        if not self._is_this_call(original, args, kwargs):
            return original(*args, **kwargs)
        assert self._held is not None
        return self._held.clone()

    def _is_this_call(self, original: types.FunctionType, args: Any, kwargs: Any) -> bool:
        if self._is_property:
            return len(args) == 1 and args[0] is self.owner
        bound_to = getattr(getattr(self.owner, self.name), "__self__", None)
        expected = self.arguments if bound_to is None else [bound_to, *self.arguments]
        signature = inspect.signature(original)
        try:
            given = _with_defaults(signature.bind(*args, **kwargs))
            wanted = _with_defaults(signature.bind(*expected))
        except TypeError:
            return False
        return given.keys() == wanted.keys() and all(_same(value, wanted[name]) for name, value in given.items())


@contextlib.contextmanager
def values_replaced(values: Iterable[CalledValue]) -> Iterator[None]:
    """Replace several calls."""
    with contextlib.ExitStack() as stack:
        for value in values:
            stack.enter_context(value.replaced())
        yield


def _function(owner: Any, name: str) -> tuple[types.FunctionType, bool]:
    """The Python function behind a method, property or function, and whether it is a property."""
    attribute = inspect.getattr_static(owner, name, None)
    is_property = isinstance(attribute, property)
    function = attribute.fget if isinstance(attribute, property) else getattr(attribute, "__func__", attribute)
    if not isinstance(function, types.FunctionType):
        raise ComponentError(
            f"{type(owner).__name__}.{name} is no method or property that is written in Python, so that its calls "
            "cannot be replaced. Write a method that calls it, let the environment call that, and register that."
        )
    return function, is_property


def _with_defaults(bound: inspect.BoundArguments) -> dict[str, Any]:
    bound.apply_defaults()
    return bound.arguments


def _same(one: Any, two: Any) -> bool:
    """Whether two arguments are the same; tensors by their memory, because no value may be read while recording."""
    if one is two:
        return True
    if isinstance(one, torch.Tensor) or isinstance(two, torch.Tensor):
        if not (isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor)):
            return False
        with torch._C.DisableTorchFunction():
            return (one.data_ptr(), one.shape, one.stride()) == (two.data_ptr(), two.shape, two.stride())
    if isinstance(one, list | tuple):
        is_list = isinstance(two, list | tuple) and len(one) == len(two)
        return is_list and all(_same(*pair) for pair in zip(one, two, strict=True))
    try:
        return type(one) is type(two) and bool(one == two)
    except (TypeError, ValueError):
        return False
