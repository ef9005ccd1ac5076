"""Writes files atomically: whole or not at all, also if the process is killed or the power fails."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from exploy.errors import ExployError, OutputPathError

try:
    import fcntl
except ImportError:  # Windows: temporary files of killed processes stay
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".exploy_tmp"
_TOKEN = "[0-9a-f]{16}"
_LONGEST_NAME = 150  # bytes of the target's name in a temporary name; file systems allow 255 in all


@contextlib.contextmanager
def replacing(target: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path next to the target, which replaces the target if the body succeeds.

    The new file is on the disk before it gets its name. If the body raises, the temporary file is removed and the
    target is unchanged. A killed process leaves its temporary file; the next call for the same target removes it. If
    the target is a link, the file that it leads to is replaced, and the link stays.

    Args:
        target: The file to write.
        durable: Bring the file to the disk before it gets its name, which takes some milliseconds.

    Raises:
        OutputPathError: If the target is a folder, the folder cannot be created, or the file cannot be written.
    """
    target = linked_file(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(target)
        temporary, descriptor = _new_temporary(target)
    except OSError as error:
        raise OutputPathError(f"Cannot write {target}: {error.strerror or error}. Choose a writable folder.") from error
    opened = contextlib.ExitStack()
    opened.callback(os.close, descriptor)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        if durable:
            os.fsync(descriptor)
        if fcntl is None:
            opened.close()  # Windows does not rename open files
        os.replace(temporary, target)
        if durable:
            sync_folder(target.parent)
    except ExployError:
        raise
    except OSError as error:
        raise OutputPathError(
            f"Cannot write {target}: {error.strerror or error}. Choose another location, or free disk space."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
        opened.close()


def linked_file(path: Path) -> Path:
    """Return the file that a path leads to through links, which need not exist.

    Raises:
        OutputPathError: If it is a folder, or a link that leads to itself, or its folder cannot be read.
    """
    try:
        target = Path(os.path.realpath(path))
        is_folder, is_link = target.is_dir(), target.is_symlink()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise OutputPathError(f"Cannot write {path}: {reason}. Choose another location.") from error
    if is_folder:
        raise OutputPathError(f"Cannot write {path}: it is a folder. Give the name of a file.")
    if is_link:
        raise OutputPathError(f"Cannot write {path}: it is a link that leads to itself. Remove the link.")
    return target


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can do so."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _new_temporary(target: Path) -> tuple[Path, int]:
    """Create a temporary file. It stays locked while its descriptor is open, which tells that its process lives."""
    while True:
        path = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}{_SUFFIX}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _lock(descriptor)
        if _is_at(path, descriptor):
            return path, descriptor
        os.close(descriptor)  # removed by another process before it was locked


def _remove_left_behind(target: Path) -> None:
    """Remove temporary files for this target whose processes are gone."""
    if fcntl is None:
        return
    pattern = re.compile(re.escape(_prefix(target)) + _TOKEN + re.escape(_SUFFIX))
    for path in target.parent.iterdir():
        if not pattern.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _lock(descriptor) and _is_at(path, descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file until its descriptor is closed. Return False if another process holds it, or nothing can lock it."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether a path still names the file of a descriptor."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _prefix(target: Path) -> str:
    return f".{os.fsencode(target.name)[:_LONGEST_NAME].decode(errors='ignore')}."


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
