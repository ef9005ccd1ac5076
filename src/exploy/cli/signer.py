"""Who signed a file, as `exploy inspect` shows it."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exploy.errors import SignatureError
from exploy.runtime.model_file import ModelFile
from exploy.runtime.signatures.signature import Statement
from exploy.runtime.signatures.trust import read_signature


@dataclass(frozen=True)
class Signer:
    """What is known of the signature of a file.

    Args:
        statement: What was signed; None if there is no signature, or it cannot be read.
        is_trusted: Whether a trusted key has signed it.
        misfit: Why the signature does not fit the file; None if it does, or there is none.
        unchecked: Why it could not be checked; None if it was.
    """

    statement: Statement | None = None
    is_trusted: bool = False
    misfit: str | None = None
    unchecked: str | None = None

    def __str__(self) -> str:
        if self.misfit is not None:
            return f"DOES NOT FIT: {self.misfit}"
        if self.statement is None:
            return "none; nobody vouches for this file"
        if self.unchecked is not None:
            return f"claims to be by {self.statement}; not checked: {self.unchecked}"
        verdict = "trusted" if self.is_trusted else "not verified against a trusted key"
        return f"valid, by {self.statement}; {verdict}"

    def document(self) -> dict[str, Any] | None:
        """The same for programs; None if there is no signature."""
        if self.statement is None and self.misfit is None:
            return None
        signed = {} if self.statement is None else dataclasses.asdict(self.statement) | {"key": self.statement.key.id}
        return signed | {"trusted": self.is_trusted, "misfit": self.misfit, "unchecked": self.unchecked}


def find_signer(path: Path, file: ModelFile) -> Signer:
    """Look at the signature next to a file."""
    if file.signed is not None:
        return Signer(file.signed, is_trusted=True)
    try:
        signature = read_signature(path, None)
    except SignatureError as error:
        return Signer(misfit=str(error))
    if signature is None:
        return Signer()
    try:
        return Signer(signature.statement, misfit=signature.misfit(file.data))
    except SignatureError as error:  # cryptography is not installed
        return Signer(signature.statement, unchecked=str(error))
