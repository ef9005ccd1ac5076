"""Makes keys, and signs files with them."""

import os
import time
from pathlib import Path
from typing import Any

from exploy.atomic_write import replacing, sync_folder
from exploy.errors import OutputPathError, SignatureError
from exploy.runtime.model_file import ModelFile
from exploy.runtime.signatures import public_keys
from exploy.runtime.signatures.ed25519 import load_ed25519
from exploy.runtime.signatures.public_keys import PublicKey
from exploy.runtime.signatures.signature import SUFFIX, Signature, Statement


def new_key(path: Path, name: str | None = None, passphrase: str | None = None) -> PublicKey:
    """Write a new private key, which only its owner can read, and its public key next to it.

    Args:
        path: The private key. The public key is `PATH.pub`, or `NAME.pub` for `NAME.key`.
        name: The name in the public key; that of the file if None.
        passphrase: Encrypts the private key.

    Raises:
        OutputPathError: If one of the files exists, or cannot be written. An existing key is never overwritten.
        SignatureError: If cryptography is not installed, or the name cannot be shown as it is.
    """
    ed25519, serialization = load_ed25519()
    private = ed25519.Ed25519PrivateKey.generate()
    encryption = (
        serialization.BestAvailableEncryption(os.fsencode(passphrase)) if passphrase else serialization.NoEncryption()
    )
    pem: bytes = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    key = PublicKey(private.public_key().public_bytes_raw(), path.stem if name is None else name.strip())
    Statement.about(b"", key, key.name, "")  # refuses a name that no signature could state
    public = public_path(path)
    for taken in (path, public):
        if os.path.lexists(taken):
            raise OutputPathError(f"{taken} already exists, and keys are never overwritten. Choose another name.")
    _write_new(path, pem, 0o600)
    try:
        _write_new(public, f"{key}\n".encode(), 0o644)
    except OutputPathError:
        path.unlink()
        raise
    return key


def public_path(path: Path) -> Path:
    """Where the public key of a private key is."""
    return path.with_suffix(public_keys.SUFFIX) if path.suffix == ".key" else path.with_name(f"{path.name}.pub")


def sign_file(path: Path, key: Path, name: str | None = None, passphrase: str | None = None) -> Statement:
    """Sign a file: write `FILE.sig` next to it. An existing signature is replaced.

    Args:
        path: An exported file of any backend.
        key: The private key.
        name: The signer's name; that of the public key next to the private key if None.
        passphrase: Of the private key.

    Raises:
        ContractError: If it is not an exported file, or was changed.
        SignatureError: If the key cannot be used, or cryptography is not installed.
        OutputPathError: If the signature cannot be written.
    """
    private = _read_private(key, passphrase)
    data = _read_file(path)
    ModelFile.parse(data, str(path))  # a damaged file is not worth a signature
    public = PublicKey(private.public_key().public_bytes_raw())
    statement = Statement.about(data, public, _name_of(key, public) if name is None else name, _now())
    signature = Signature(statement, private.sign(statement.message()))
    with replacing(path.with_name(f"{path.name}{SUFFIX}")) as temporary:
        temporary.write_text(signature.to_json(), encoding="utf-8")
    return statement


def _name_of(key: Path, public: PublicKey) -> str:
    """The name in the public key next to a private key, or the name of its file."""
    try:
        known = PublicKey.parse(public_path(key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return key.stem
    return known.name if known.data == public.data else key.stem


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SignatureError(f"Cannot read {path}: {error.strerror or error}. Give the path of a file.") from None


def _read_private(path: Path, passphrase: str | None) -> Any:
    ed25519, serialization = load_ed25519()
    password = os.fsencode(passphrase) if passphrase else None
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=password)
    except OSError as error:
        raise SignatureError(f"Cannot read the key {path}: {error.strerror or error}.") from None
    except (TypeError, ValueError) as error:
        raise SignatureError(f"Cannot use the key {path}: {error}. Check the file and the passphrase.") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise SignatureError(f"{path} is not an Ed25519 key. Make one: exploy keys new")
    return key


def _write_new(path: Path, data: bytes, mode: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            os.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OutputPathError(f"Cannot write {path}: {error.strerror or error}. Choose another location.") from None
    sync_folder(path.parent)


def _now() -> str:
    """The time of the signature, or of SOURCE_DATE_EPOCH."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(seconds) if seconds.isdigit() else None))
