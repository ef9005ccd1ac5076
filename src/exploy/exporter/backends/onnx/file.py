"""Writes ONNX models: one file each, whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir

from exploy.errors import ExployError, LoweringError, OutputPathError

MAX_BYTES = 2**31 - 1


def onnx_target(folder: str | Path, name: str) -> Path:
    """The path of a file to be written, with `.onnx` added where it is missing.

    Raises:
        OutputPathError: If nothing can be written there.
    """
    if not isinstance(name, str) or not name or not name.isprintable() or Path(name).name != name:
        raise OutputPathError(f"The filename must be a plain name such as 'policy.onnx', got {name!r}.")
    target = Path(folder).expanduser() / (name if name.endswith(".onnx") else f"{name}.onnx")
    if target.is_dir():
        raise OutputPathError(f"Cannot write {target}: it is a folder. Choose another filename.")
    if target.parent.exists() and not target.parent.is_dir():
        raise OutputPathError(f"Cannot write {target}: {target.parent} is a file. Choose another folder.")
    return target


def serialize(model: ir.Model) -> bytes:
    """The bytes of a model with all its weights inside.

    Raises:
        LoweringError: If it is larger than the 2 GiB that an ONNX file can hold.
    """
    weights = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
    if weights <= MAX_BYTES:
        data = ir.to_proto(model).SerializeToString(deterministic=True)
        if len(data) <= MAX_BYTES:
            return bytes(data)
        weights = len(data)
    raise LoweringError(
        f"The model takes {weights / 2**30:.2f} GiB, and one ONNX file holds 2 GiB at most. "
        "Use a smaller network or store its weights in half precision."
    )


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a temporary path beside the target, which takes the target's place if the body succeeds.

    If the body raises, the temporary file is removed and the target is as it was.

    Raises:
        OutputPathError: If the folder cannot be made, or the file cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=".onnx", dir=target.parent)
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
