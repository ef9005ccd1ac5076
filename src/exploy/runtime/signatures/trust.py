"""Decides whether the bytes of a file may be loaded: before anything in them is looked at."""

import os
from dataclasses import dataclass
from pathlib import Path

from exploy.errors import SignatureError
from exploy.runtime.signatures.public_keys import PublicKey, TrustedKeys, read_keys
from exploy.runtime.signatures.signature import LARGEST, SUFFIX, Signature, Statement

VARIABLE = "EXPLOY_TRUSTED_KEYS"

SignatureSource = bytes | str | os.PathLike[str]


@dataclass(frozen=True)
class Trust:
    """The keys that are trusted. A file must be signed with a key of each list.

    Args:
        lists: What the program gives, and what the environment variable gives; empty if a signature is not needed.
    """

    lists: tuple[list[PublicKey], ...]

    @classmethod
    def of(cls, trusted_keys: TrustedKeys | None) -> "Trust":
        """The keys that a program trusts, and those of the environment variable.

        Raises:
            SignatureError: If one of them was given but names no key, or a key cannot be read.
        """
        lists = []
        if trusted_keys is not None:
            lists.append(read_keys(trusted_keys))
        variable = os.environ.get(VARIABLE)
        if variable is not None:
            places = [place for place in variable.split(os.pathsep) if place.strip()]
            if not places:
                raise SignatureError(f"{VARIABLE} is set but names no key. Name key files in it, or unset it.")
            lists.append(read_keys(_split_keys(places)))
        return cls(tuple(lists))

    @property
    def is_needed(self) -> bool:
        """Whether a file must be signed."""
        return bool(self.lists)

    def require_signed(self, data: bytes, name: str, signature: Signature) -> Statement:
        """Check that these bytes were signed with a trusted key, and return what was signed.

        Raises:
            SignatureError: If they were not, or cryptography is not installed.
        """
        statement = signature.statement
        misfit = signature.misfit(data)
        if misfit is not None:
            raise SignatureError(f"{name} is refused: {misfit}. Copy file and signature again, or sign it again.")
        for keys in self.lists:
            if statement.key.data not in {key.data for key in keys}:
                trusted = ", ".join(f"{key.id} {key.name}".strip() for key in keys[:5])
                raise SignatureError(
                    f"{name} is refused: it is signed by {statement}, which is not trusted. Trusted: {trusted}."
                )
        return statement


def _split_keys(places: list[str]) -> list[str]:
    """Join `ed25519` and the key that follows it: the separator of paths is in between."""
    joined: list[str] = []
    for place in places:
        if joined and joined[-1] == "ed25519":
            joined[-1] = f"ed25519:{place}"
        else:
            joined.append(place)
    return joined


def read_signature(path: str | os.PathLike[str] | None, given: SignatureSource | None) -> Signature | None:
    """Return the signature of a file, or None if there is none.

    Args:
        path: The file, whose signature is next to it, or next to the file that it leads to if it is a link.
        given: The signature itself or its path, instead.

    Raises:
        SignatureError: If it cannot be read, or is not a signature.
    """
    if isinstance(given, bytes | bytearray | memoryview):
        return Signature.from_json(bytes(given), "The given signature")
    if given is not None:
        if not isinstance(given, str | os.PathLike):
            raise SignatureError(f"signature must be the bytes of a signature or its path, got {given!r}.")
        return _read(Path(given))
    if path is None:
        return None
    for place in (f"{os.fspath(path)}{SUFFIX}", f"{os.path.realpath(path)}{SUFFIX}"):
        if os.path.lexists(place):
            return _read(Path(place))
    return None


def _read(path: Path) -> Signature:
    try:
        with path.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SignatureError(f"Cannot read the signature {path}: {reason}.") from None
    return Signature.from_json(data, str(path))
