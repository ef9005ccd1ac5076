"""An exported file of any backend: its bytes, and the contract in them."""

import os
from dataclasses import dataclass
from pathlib import Path

from exploy.contract import Contract
from exploy.contract.limits import MAX_FILE_BYTES
from exploy.errors import ContractError, SignatureError
from exploy.runtime.archives import archive
from exploy.runtime.archives.compiled_code import find_code
from exploy.runtime.file_errors import refused
from exploy.runtime.onnx import file as onnx_file
from exploy.runtime.onnx.graph_checks import require_sound
from exploy.runtime.onnx.outline import Outline
from exploy.runtime.signatures.public_keys import TrustedKeys
from exploy.runtime.signatures.signature import SUFFIX, Statement
from exploy.runtime.signatures.trust import SignatureSource, Trust, read_signature

_COMPILED = {"aot_inductor": "libraries of AOTInductor", "c": "a library compiled from C"}  # by backend

Source = str | os.PathLike[str] | bytes


@dataclass(frozen=True)
class ModelFile:
    """The bytes of an exported file, whose digest is right, with its contract.

    Args:
        data: The bytes.
        contract: The contract in them.
        outline: Where the parts of an ONNX file are; None for files of other formats.
        signed: What a trusted key has signed; None if no signature was needed.
        may_run_code: Whether compiled code in the file may be run.
    """

    data: bytes
    contract: Contract
    outline: Outline | None = None
    signed: Statement | None = None
    may_run_code: bool = False

    @classmethod
    def load(
        cls,
        source: Source,
        *,
        trusted_keys: TrustedKeys | None = None,
        signature: SignatureSource | None = None,
        allow_code: bool = False,
    ) -> "ModelFile":
        """Read and check a file.

        If keys are given, here or by the environment variable EXPLOY_TRUSTED_KEYS, the signature is checked before
        anything in the file is looked at. The file is read once, so what was checked is what is used.

        Args:
            source: The file, or its bytes.
            trusted_keys: Public keys, or paths of key files or of folders of key files.
            signature: The signature or its path; by default `FILE.sig`.
            allow_code: Run compiled code in the file even if no trusted key has signed it.

        Raises:
            SignatureError: If it is not signed by a trusted key.
            ContractError: If it cannot be read, is not an exported file, or was changed.
        """
        trust = Trust.of(trusted_keys)
        is_path = not isinstance(source, bytes | bytearray | memoryview)
        name = str(source) if is_path else "The file"
        data = read_bytes(source)
        signed = None
        if trust.is_needed:
            signed = _require_signed(trust, data, source if is_path else None, signature, name)
        return cls.parse(data, name, may_run_code=allow_code or signed is not None, signed=signed)

    @classmethod
    def parse(
        cls, data: bytes, name: str = "The file", *, may_run_code: bool = False, signed: Statement | None = None
    ) -> "ModelFile":
        """Check the bytes of a file, but not who made it.

        Raises:
            ContractError: If they are not an exported file, have no contract, or were changed after the export.
        """
        with refused(name, "read"):
            if archive.is_archive(data):
                return cls(data, archive.read_sealed(data, name), signed=signed, may_run_code=may_run_code)
            outline = Outline.parse(data, name)
            contract = onnx_file.read_sealed(outline, name)
            require_sound(outline, name)
            return cls(data, contract, outline, signed, may_run_code)

    def require_no_unknown_code(self) -> None:
        """Refuse compiled code that nobody has vouched for.

        Raises:
            SignatureError: If the file has compiled code, and is neither signed by a trusted key nor allowed to run it.
        """
        backend = self.contract.backend
        if self.may_run_code or backend == "onnx":  # onnxruntime gets the graph alone
            return
        found = _COMPILED.get(backend) or find_code(self.data)
        if found is not None:
            raise SignatureError(
                f"The file has compiled code ({found}), which can do anything on this machine. Load it with "
                "trusted_keys= if its maker signed it, or with allow_code=True if you made it yourself."
            )

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


def read_bytes(source: Source) -> bytes:
    """Return the bytes of a file; bytes are returned as they are.

    Raises:
        ContractError: If the file cannot be read.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    try:
        return _read(Path(source))
    except (OSError, TypeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ContractError(f"Cannot read {source!s}: {reason}. Give the path of a file.") from None


def _require_signed(trust: Trust, data: bytes, path: object, given: SignatureSource | None, name: str) -> Statement:
    signature = read_signature(path if isinstance(path, str | os.PathLike) else None, given)
    if signature is None:
        where = f"there is no {name}{SUFFIX}" if path is not None else "bytes need signature="
        raise SignatureError(
            f"{name} is refused: it is not signed ({where}), and only files of trusted keys are loaded here. Copy its "
            "signature too, or sign it: exploy sign"
        )
    return trust.require_signed(data, name, signature)
