"""Writes files whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from exploy.errors import ExployError, OutputPathError


def checked_target(folder: str | Path, name: str, suffix: str) -> Path:
    """The path of a file to be written, with its suffix added where that is missing.

    Raises:
        OutputPathError: If nothing can be written there.
    """
    if not isinstance(name, str) or not name or not name.isprintable() or Path(name).name != name:
        raise OutputPathError(f"The filename must be a plain name such as 'policy{suffix}', got {name!r}.")
    target = Path(folder).expanduser() / (name if name.endswith(suffix) else f"{name}{suffix}")
    if target.is_dir():
        raise OutputPathError(f"Cannot write {target}: it is a folder. Choose another filename.")
    if target.parent.exists() and not target.parent.is_dir():
        raise OutputPathError(f"Cannot write {target}: {target.parent} is a file. Choose another folder.")
    return target


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a temporary path beside the target, which takes the target's place if the body succeeds.

    If the body raises, the temporary file is removed and the target is as it was.

    Raises:
        OutputPathError: If the folder cannot be made, or the file cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise OutputPathError(
            f"Cannot write {target}: {error.strerror or error}. Choose a folder that can be written to."
        ) from error
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, target)
    except ExployError:
        raise
    except OSError as error:
        raise OutputPathError(
            f"Cannot write {target}: {error.strerror or error}. Choose another place, or make room."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
