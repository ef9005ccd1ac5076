"""Public keys: one line of text each, in a file, in a folder of files, or given as they are."""

import base64
import binascii
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from exploy.errors import SignatureError

SUFFIX = ".pub"
_ALGORITHM = "ed25519:"
_SIZE = 32
_FIELD = 2**255 - 19
_Y_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_WEAK = frozenset({0, 1, _FIELD - 1, _Y_OF_ORDER_8, _FIELD - _Y_OF_ORDER_8})  # y of the points of small order
_LARGEST_FILE = 1 << 20

TrustedKeys = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True)
class PublicKey:
    """A public key, and the name that its line gives it."""

    data: bytes
    name: str = ""

    @property
    def id(self) -> str:
        """A short name of the key that cannot be chosen: the start of its SHA-256."""
        return hashlib.sha256(self.data).hexdigest()[:16]

    def __str__(self) -> str:
        return f"{_ALGORITHM}{base64.b64encode(self.data).decode()} {self.name}".strip()

    @classmethod
    def parse(cls, line: str) -> "PublicKey":
        """Read a line such as `ed25519:Qm9… Alice`.

        Raises:
            SignatureError: If it is not a public key.
        """
        text, name = (*line.split(maxsplit=1), "", "")[:2]
        try:
            data = base64.b64decode(text.removeprefix(_ALGORITHM), validate=True)
        except (binascii.Error, ValueError):
            data = b""
        if not text.startswith(_ALGORITHM) or len(data) != _SIZE:
            raise SignatureError(f"A public key is a line such as 'ed25519:… NAME', got {line.strip()[:80]!r}.")
        if (int.from_bytes(data, "little") & ~(1 << 255)) % _FIELD in _WEAK:
            raise SignatureError(f"{text} is not the key of anybody: anybody can make signatures that fit it.")
        return cls(data, name.strip())


def read_keys(source: TrustedKeys) -> list[PublicKey]:
    """Return the keys of a source: a key, a file of keys, a folder of `.pub` files, or several of these.

    Raises:
        SignatureError: If there is no key in it, or one cannot be read: nothing is trusted by mistake.
    """
    if isinstance(source, str | os.PathLike):
        return _read(source)
    try:
        items = list(source)
    except TypeError:
        raise SignatureError(f"trusted_keys must be keys or paths, got {source!r}.") from None
    if not items:
        raise SignatureError("The list of trusted keys is empty, so no file can be trusted. Give a public key.")
    return [key for item in items for key in _read(item)]


def _read(item: str | os.PathLike[str]) -> list[PublicKey]:
    if isinstance(item, str) and item.startswith(_ALGORITHM):
        return [PublicKey.parse(item)]
    if not isinstance(item, str | os.PathLike) or not str(item):
        raise SignatureError(f"A trusted key must be a public key or the path of one, got {item!r}.")
    path = Path(item)
    try:
        files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
        keys = [key for file in files for key in _keys_in(file)]
    except (OSError, ValueError) as error:
        if isinstance(error, SignatureError):
            raise
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SignatureError(f"Cannot read the trusted keys in {path}: {reason}.") from None
    if not keys:
        raise SignatureError(f"There is no public key in {path}. Put a {SUFFIX} file of `exploy keys new` there.")
    return keys


def _keys_in(file: Path) -> list[PublicKey]:
    """Return the keys in a file: one per line; empty lines and comments are left out."""
    with file.open("rb") as stream:
        data = stream.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise SignatureError(f"{file} is too large for a file of public keys.")
    lines = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    try:
        return [PublicKey.parse(line) for line in lines if line and not line.startswith("#")]
    except SignatureError as error:
        raise SignatureError(f"{file} is not a file of public keys. {error}") from None
