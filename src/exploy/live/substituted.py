"""Puts substitutes in the place of the code that they stand for, converts instances, and takes both back."""

import contextlib
import gc
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from exploy.environment.exchanged_code import calls_replaced
from exploy.environment.substitutes import Conversion, Substitute
from exploy.errors import SubstituteError
from exploy.live.gradient_mode import gradient_mode
from exploy.live.location import definition
from exploy.live.object_graph import walk


@contextlib.contextmanager
def substituted(substitutes: Iterable[Substitute], among: list[object] | None = None) -> Iterator[None]:
    """Call replacements in place of originals, and give the instances of replaced classes their layout.

    At the end, the functions have their own code again and the instances the layout of the original, also after an
    error. Instances that are made in the block are converted as well.

    Args:
        substitutes: The substitutes.
        among: The instances to convert; those of the whole process if None, because the code is exchanged for all.

    Raises:
        SubstituteError: If an instance cannot be converted. What was converted before is converted back.
    """
    with contextlib.ExitStack() as stack:
        for item in substitutes:
            if item.from_original is not None and item.owner is not None:
                stack.enter_context(_converted(item, among))
            for pair in item.pairs:
                stack.enter_context(calls_replaced(pair.original, _answer(item, pair.replacement)))
        yield


def instances_of(kind: type) -> list[Any]:
    """All objects of the process that are instances of a class or of its subclasses."""
    kinds = [kind]
    for item in kinds:
        kinds.extend(type.__subclasses__(item))
    return [item for item in gc.get_referrers(*kinds) if any(type(item) is known for known in kinds)]


def _answer(item: Substitute, replacement: Callable[..., Any]) -> Callable[..., Any]:
    def answer(original: types.FunctionType, *args: Any, **kwargs: Any) -> Any:
        return (replacement if item.stands_for(args) else original)(*args, **kwargs)

    return answer


@contextlib.contextmanager
def _converted(item: Substitute, among: list[object] | None) -> Iterator[None]:
    assert item.owner is not None and item.from_original is not None and item.to_original is not None
    from_original, to_original = item.from_original, item.to_original

    def converted_when_made(original: types.FunctionType, *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if item.stands_for(args):
            _convert(from_original, args[0], item)

    instances = instances_of(item.owner) if among is None else among
    done: list[Any] = []
    try:
        for instance in instances:
            _convert(from_original, instance, item)
            done.append(instance)
        instances = []
        with calls_replaced(item.owner.__init__, converted_when_made):  # type: ignore[misc]
            yield
    finally:
        is_complete = not instances
        _convert_all(to_original, instances_of(item.owner) if is_complete and among is None else done, item)


def _convert_all(conversion: Conversion, instances: Iterable[Any], item: Substitute) -> None:
    """Convert all instances that can be converted, and only then raise for the first that cannot."""
    errors = []
    for instance in instances:
        try:
            _convert(conversion, instance, item)
        except SubstituteError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _convert(conversion: Conversion, instance: Any, item: Substitute) -> None:
    tensors = (found.value for found in walk({"instance": instance}) if isinstance(found.value, torch.Tensor))
    try:
        with gradient_mode(tensors):
            conversion(instance)
    except Exception as error:
        raise SubstituteError(
            f"{definition(conversion)}: an instance of {item.name} cannot be converted for its substitute: "
            f"{type(error).__name__} ({error}). Correct from_original and to_original."
        ) from error
