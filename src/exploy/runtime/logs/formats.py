"""Chooses the format of a log by its file extension."""

from pathlib import Path

from exploy.errors import LogError
from exploy.runtime.logs.log import Header, Log, Sink, require_new_file

_ENDINGS = (".mcap", ".npz")


def open_sink(path: Path, header: Header) -> Sink:
    """Start a log.

    Raises:
        LogError: If the extension is unknown, the file exists or cannot be written, or the format is not installed.
    """
    _check(path)
    require_new_file(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".npz":
            from exploy.runtime.logs.npz import NpzSink

            return NpzSink(path, header)
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
        if path.suffix == ".npz":
            from exploy.runtime.logs import npz

            return npz.read(path)
        from exploy.runtime.logs import mcap

        return mcap.read(path)
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
