"""Finds what a library's object has, by what is there and not by the library's version."""

from typing import Any

from exploy.errors import PolicyError


def attribute(owner: Any, *paths: str, what: str) -> Any:
    """The first of some attributes that is there.

    Args:
        owner: Where to look.
        *paths: Names, or dotted paths, in the order of preference.
        what: What it is, in the words of the error.

    Raises:
        PolicyError: With all that was looked for, if none is there.
    """
    for path in paths:
        found: Any = owner
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is not None:
            return found
    looked_for = " or ".join(f"`{path}`" for path in paths)
    raise PolicyError(
        f"A {type(owner).__module__}.{type(owner).__name__} has no {what}: looked for {looked_for}. "
        "Is it an object of this library, in a version that is supported?"
    )


def has(owner: Any, *names: str) -> bool:
    """Whether an object has all of these attributes, none of them None."""
    return all(getattr(owner, name, None) is not None for name in names)
