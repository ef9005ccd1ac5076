"""The code of the functions and objects that can be reached from live objects."""

import itertools
import types
from collections.abc import Iterator

from exploy.live.attribute_reads import codes_of_class
from exploy.live.location import is_user_code
from exploy.live.object_graph import is_a, walk

_MAX_OBJECTS = 20_000


def codes_reached_from(objects: dict[str, object], skip: tuple[type, ...] = ()) -> Iterator[types.CodeType]:
    """Functions of user code, and methods of the classes of objects, nearest first.

    Args:
        objects: The objects to start from. Only the nearest objects are looked at if there are very many.
        skip: Types whose instances are not entered.
    """
    kinds: dict[int, type] = {}  # a metaclass may make a type unhashable
    for _, value in itertools.islice(walk(objects, closures=True, skip=skip), _MAX_OBJECTS):
        if is_a(value, types.FunctionType):
            if is_user_code(value.__code__):
                yield value.__code__
        elif id(type(value)) not in kinds:
            kinds[id(type(value))] = type(value)
            yield from codes_of_class(type(value))
