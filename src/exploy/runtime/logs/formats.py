"""Chooses the format of a log by its file extension."""

import os
from pathlib import Path

from exploy.atomic_write import linked_file
from exploy.errors import LogError, OutputPathError
from exploy.runtime.logs import npz
from exploy.runtime.logs.log import Header, Log, Sink

_ENDINGS = (".mcap", ".npz")


def new_log_path(path: str | Path) -> Path:
    """Return where a new log is written: the absolute path, or the file that it leads to if it is a link.

    Raises:
        LogError: If the extension is unknown, or the log exists.
    """
    path = Path(path)
    _check(path)
    try:
        target = linked_file(path)
    except OutputPathError as error:
        raise LogError(str(error)) from None
    for taken in (target, npz.part_of(target)):
        if taken.exists():
            raise LogError(f"{taken} already exists, and logs are never overwritten. Choose another name.")
    return target


def open_sink(path: Path, ending: str, header: Header) -> Sink:
    """Start a log.

    Args:
        path: The file.
        ending: The format, `.npz` or `.mcap`.
        header: The description of the log.

    Raises:
        LogError: If the file exists or cannot be written, or the format is not installed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if ending == ".npz":
            return npz.NpzSink(path, header)
        from exploy.runtime.logs.mcap import McapSink

        return McapSink(path, header)
    except OSError as error:
        raise LogError(f"Cannot write {path}: {error.strerror or error}. Choose another location.") from None


def load_log(path: str | Path) -> Log:
    """Read a log, even if its process was killed.

    Raises:
        LogError: If the extension is unknown, the file does not exist or is damaged, or the format is not installed.
    """
    path = Path(path)
    _check(path)
    try:
        target = Path(os.path.realpath(path))  # the parts of an unclosed log are next to the file, not to a link
        if path.suffix == ".npz":
            return npz.read(target)
        from exploy.runtime.logs import mcap

        return mcap.read(target)
    except FileNotFoundError:
        raise LogError(f"Log {path} not found.") from None
    except OSError as error:
        raise LogError(f"Cannot read {path}: {error.strerror or error}.") from None
    except LogError:
        raise
    except Exception as error:  # reading a damaged log can raise anything
        raise LogError(f"{path} is not a log of exploy, or is damaged ({type(error).__name__}: {error}).") from None


def _check(path: Path) -> None:
    if path.suffix not in _ENDINGS:
        raise LogError(f"The name of a log must end with .npz or .mcap, got {path.name!r}.")
