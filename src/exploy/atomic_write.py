"""Writes files atomically."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from exploy.errors import ExployError, OutputPathError


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path next to the target, which replaces the target if the body succeeds.

    If the body raises, the temporary file is removed and the target is unchanged.

    Raises:
        OutputPathError: If the folder cannot be created, or the file cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise OutputPathError(f"Cannot write {target}: {error.strerror or error}. Choose a writable folder.") from error
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, target)
    except ExployError:
        raise
    except OSError as error:
        raise OutputPathError(
            f"Cannot write {target}: {error.strerror or error}. Choose another location, or free disk space."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
