"""An exported file of any backend: its bytes, and the contract in them."""

import os
from dataclasses import dataclass
from pathlib import Path

from exploy.contract import Contract
from exploy.contract.limits import MAX_FILE_BYTES
from exploy.errors import ContractError
from exploy.runtime.file_errors import refused
from exploy.runtime.onnx import file as onnx_file
from exploy.runtime.onnx.graph_checks import require_sound
from exploy.runtime.onnx.outline import Outline
from exploy.runtime.pt2 import archive


@dataclass(frozen=True)
class ModelFile:
    """The bytes of an exported file, whose digest is right, with its contract.

    Args:
        data: The bytes.
        contract: The contract in them.
        outline: Where the parts of an ONNX file are; None for files of other formats.
    """

    data: bytes
    contract: Contract
    outline: Outline | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "ModelFile":
        """Read and check a file.

        Raises:
            ContractError: If it cannot be read, is not an exported file, or was changed.
        """
        try:
            data = _read(Path(path))
        except (OSError, TypeError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise ContractError(f"Cannot read {path!s}: {reason}. Give the path of a file.") from None
        return cls.parse(data, str(path))

    @classmethod
    def parse(cls, data: bytes, name: str = "The file") -> "ModelFile":
        """Check the bytes of a file.

        Raises:
            ContractError: If they are not an exported file, have no contract, or were changed after the export.
        """
        with refused(name, "read"):
            if archive.is_archive(data):
                return cls(data, archive.read_sealed(data, name))
            outline = Outline.parse(data, name)
            contract = onnx_file.read_sealed(outline, name)
            require_sound(outline, name)
            return cls(data, contract, outline)

    @property
    def carries_code(self) -> bool:
        """Whether the file contains compiled code, which runs with all rights when it is loaded."""
        return archive.carries_code(self.data)

    def require_onnx(self, purpose: str) -> None:
        """Refuse a file of another backend.

        Raises:
            ContractError: With what was to be done with it.
        """
        if self.contract.backend != "onnx":
            raise ContractError(
                f"{purpose} takes ONNX files, and this one is for {self.contract.backend}. Export with backend='onnx'; "
                "without an environment, `exploy verify` runs the trace of any file."
            )


def _read(path: Path) -> bytes:
    """Read a file, but nothing without an end, such as a device or a pipe.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it is too large, or not a file.
    """
    if path.exists() and not path.is_dir() and not path.is_file():
        raise ValueError("it is a device or a pipe")
    if path.is_file() and path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"it has more than {MAX_FILE_BYTES // 2**30} GiB")
    return path.read_bytes()
