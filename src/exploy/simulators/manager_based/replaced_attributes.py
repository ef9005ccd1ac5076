"""Sets attributes of objects for a while."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

_MISSING = object()


@contextlib.contextmanager
def attributes_replaced(replacements: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Set attributes of instances, given as (owner, name, value), and take them back at the end, also after an error.

    An attribute that the instance did not have of its own, such as a method of its class, is removed again.
    """
    before: list[tuple[Any, str, Any]] = []
    try:
        for owner, name, value in replacements:
            before.append((owner, name, vars(owner).get(name, _MISSING)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is _MISSING:
                vars(owner).pop(name, None)
            else:
                setattr(owner, name, value)
