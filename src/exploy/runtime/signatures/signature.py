"""The signature of a file: a small JSON document next to it, which covers the file and everything that it states."""

import base64
import binascii
import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from exploy.errors import SignatureError
from exploy.runtime.signatures.ed25519 import is_valid
from exploy.runtime.signatures.public_keys import PublicKey

SUFFIX = ".sig"
LARGEST = 1 << 16  # bytes of a signature file
_DOMAIN = b"exploy file signature, version 1\0"  # no signature for another purpose can pass for one of a file
_VERSION, _ALGORITHM = 1, "ed25519"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Statement:
    """What a signer signs.

    Args:
        name: The signer's name, as given by the signer.
        date: When it was signed.
        public_key: The signer's key, in base64.
        sha256: The SHA-256 of the file.
        size: The bytes of the file.
    """

    name: str
    date: str
    public_key: str
    sha256: str
    size: int

    @classmethod
    def about(cls, data: bytes, key: PublicKey, name: str, date: str) -> "Statement":
        """The statement about a file.

        Raises:
            SignatureError: If the name cannot be shown as it is.
        """
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise SignatureError(f"A signer's name is at most {_LONGEST_NAME} printable characters, got {name!r}.")
        digest = hashlib.sha256(data).hexdigest()
        return cls(name, date, base64.b64encode(key.data).decode(), digest, len(data))

    @property
    def key(self) -> PublicKey:
        """The signer's key."""
        return PublicKey(base64.b64decode(self.public_key), self.name)

    def message(self) -> bytes:
        """The bytes that are signed."""
        document = {"version": _VERSION, "algorithm": _ALGORITHM, **asdict(self)}
        return _DOMAIN + json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    def __str__(self) -> str:
        return f"{self.name!r} on {self.date} with the key {self.key.id}"


@dataclass(frozen=True)
class Signature:
    """A statement and its signature."""

    statement: Statement
    signature: bytes

    def to_json(self) -> str:
        """The signature file."""
        signed = {"version": _VERSION, "algorithm": _ALGORITHM, **asdict(self.statement)}
        return json.dumps(signed | {"signature": base64.b64encode(self.signature).decode()}, indent=2) + "\n"

    @classmethod
    def from_json(cls, data: bytes, name: str) -> "Signature":
        """Read a signature file.

        Raises:
            SignatureError: If it is not one, or of a later version.
        """
        if len(data) > LARGEST:
            raise SignatureError(f"{name} is too large for a signature.")
        try:
            document = json.loads(data)
            fields = dict(document)
            version, algorithm = fields.pop("version"), fields.pop("algorithm")
            signature = base64.b64decode(fields.pop("signature"), validate=True)
            statement = Statement(**fields)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, binascii.Error):
            raise SignatureError(f"{name} is not a signature of `exploy sign`. Sign the file again.") from None
        if type(version) is not int or (version, algorithm) != (_VERSION, _ALGORITHM):
            raise SignatureError(
                f"{name} is a signature of version {version!r} with {algorithm!r}; this exploy reads version "
                f"{_VERSION} with {_ALGORITHM!r}. Sign the file again, or update exploy."
            )
        _require_valid_fields(statement, name)
        return cls(statement, signature)

    def misfit(self, data: bytes) -> str | None:
        """Return why this is not a signature of these bytes, or None if it is.

        Raises:
            SignatureError: If cryptography is not installed.
        """
        found = hashlib.sha256(data).hexdigest()
        if (found, len(data)) != (self.statement.sha256, self.statement.size):
            return (
                f"it was changed after it was signed: its bytes have the SHA-256 {found[:12]}…, but the signature is "
                f"for {self.statement.sha256[:12]}…"
            )
        if not is_valid(self.statement.key.data, self.signature, self.statement.message()):
            return "its signature was changed, or was not made with the key that it names"
        return None


def _require_valid_fields(statement: Statement, name: str) -> None:
    """Check the fields of a statement, so that they can be shown as they are."""
    texts: list[Any] = [statement.name, statement.date, statement.public_key, statement.sha256]
    try:
        is_good = (
            all(isinstance(text, str) and len(text) <= _LONGEST_NAME and text.isprintable() for text in texts)
            and type(statement.size) is int
            and _DATE.fullmatch(statement.date) is not None
            and re.fullmatch("[0-9a-f]{64}", statement.sha256) is not None
            and len(base64.b64decode(statement.public_key, validate=True)) == 32
        )
    except ValueError:
        is_good = False
    if not is_good:
        raise SignatureError(f"{name} is not a signature of `exploy sign`. Sign the file again.")
