"""Where an exported file goes."""

from pathlib import Path

from exploy.errors import OutputPathError


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
