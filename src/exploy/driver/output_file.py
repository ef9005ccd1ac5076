"""Validates the path of an exported file."""

from pathlib import Path

from exploy.errors import OutputPathError


def validated_target(folder: str | Path, name: str, suffix: str) -> Path:
    """Return the path of a file to write; a missing suffix is added.

    Raises:
        OutputPathError: If the path cannot be written.
    """
    if not isinstance(name, str) or not name or not name.isprintable() or Path(name).name != name:
        raise OutputPathError(f"The filename must be a plain name such as 'policy{suffix}', got {name!r}.")
    target = Path(folder).expanduser() / (name if name.endswith(suffix) else f"{name}{suffix}")
    if target.is_dir():
        raise OutputPathError(f"Cannot write {target}: it is a folder. Choose another filename.")
    if target.parent.exists() and not target.parent.is_dir():
        raise OutputPathError(f"Cannot write {target}: {target.parent} is a file. Choose another folder.")
    return target


def validated_file(path: object, suffix: str) -> Path:
    """Return the path of a file to write; a missing suffix is added.

    Raises:
        OutputPathError: If the path cannot be written.
    """
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise OutputPathError(f"The path must name a file, such as 'policy{suffix}', got {path!r}.")
    target = Path(path)
    try:
        is_folder = target.is_dir()
    except OSError as error:
        raise OutputPathError(f"Cannot write {target}: {error.strerror or error}. Choose another name.") from None
    if is_folder:
        raise OutputPathError(f"{target} is a folder; give the name of a file, such as {target / f'policy{suffix}'}.")
    return validated_target(target.parent, target.name, suffix)
