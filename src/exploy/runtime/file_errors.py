"""The border behind which everything that is wrong with a file is a ContractError."""

import contextlib
from collections.abc import Iterator

from exploy.errors import ContractError, ExployError


@contextlib.contextmanager
def refused(name: str, doing: str) -> Iterator[None]:
    """Turn any other error into a ContractError, because damaged and hostile files can make any library raise anything.

    Only around code that reads or opens a file; never around a tick or around code of users.

    Args:
        name: The file, for the message.
        doing: What is done with it, such as "read".

    Raises:
        ContractError: If the body raises something that is not an error of exploy. That error is the cause.
    """
    try:
        yield
    except ExployError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ContractError(
            f"{name} cannot be {doing} ({reason}). It is damaged or was not made by exploy. Copy it again, or export "
            "it again."
        ) from cause(error)


def cause(error: Exception) -> Exception | None:
    """Return an error as the cause of one of ours, unless a traceback would print what cannot be seen."""
    return error if str(error).replace("\n", "").isprintable() else None
