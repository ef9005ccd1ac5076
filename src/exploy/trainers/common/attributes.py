"""Looks up attributes of a library's objects by name instead of by the library's version."""

from typing import Any

from exploy.errors import PolicyError


def attribute(owner: Any, *paths: str, what: str) -> Any:
    """The first attribute that exists and is not None.

    Args:
        owner: The object to look at.
        *paths: Attribute names or dotted paths, in order of preference.
        what: What the attribute is, for the error message.

    Raises:
        PolicyError: If none exists. The message lists all paths.
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
        "Check that the object comes from this library, in a supported version."
    )


def has(owner: Any, *names: str) -> bool:
    """Whether an object has all of these attributes and none of them is None."""
    return all(getattr(owner, name, None) is not None for name in names)
