"""The contract in the bytes of an ONNX file, and the digest that shows whether the file was changed."""

import hashlib

from exploy.contract import METADATA_KEY, NO_DIGEST, Contract
from exploy.errors import ContractError
from exploy.runtime.digests import require_digest
from exploy.runtime.onnx.outline import Outline

_AFTER_DIGEST = '"}'


def read_sealed(outline: Outline, name: str) -> Contract:
    """The contract of an ONNX file whose digest is right.

    Raises:
        ContractError: If the file has no contract, or was changed after its export.
    """
    contract = Contract.from_json(_document(outline, name))
    require_digest(name, contract, _hash(outline.data, *_digest_span(outline)))
    return contract


def seal(data: bytes) -> bytes:
    """The bytes of a model with the digest of all other bytes in its contract.

    Raises:
        ContractError: If the model has no contract, or one that has a digest already.
    """
    outline = Outline.parse(data, "The model")
    contract = Contract.from_json(_document(outline, "The model"))
    if contract.digest != NO_DIGEST:
        raise ContractError("The model is sealed already. Build its contract without a digest.")
    start, stop = _digest_span(outline)
    assert data[start:stop].decode() == NO_DIGEST
    return data[:start] + _hash(data, start, stop).encode() + data[stop:]


def _document(outline: Outline, name: str) -> str:
    if len(outline.contracts) != 1:
        raise ContractError(
            f"{name} has {len(outline.contracts) or 'no'} contract{'s' if outline.contracts else ''} in its metadata "
            f"({METADATA_KEY}); a file made by exploy has one. Export it with exploy."
        )
    start, stop = outline.contracts[0]
    try:
        return outline.data[start:stop].decode()
    except UnicodeDecodeError as error:
        raise ContractError(f"The contract of {name} is damaged: {error}. Copy the file again.") from None


def _digest_span(outline: Outline) -> tuple[int, int]:
    """Where the digest starts and stops: last in the contract."""
    stop = outline.contracts[0][1] - len(_AFTER_DIGEST)
    return stop - len(NO_DIGEST), stop


def _hash(data: bytes, start: int, stop: int) -> str:
    """SHA-256 of all bytes but those between two places."""
    view = memoryview(data)
    result = hashlib.sha256(view[:start])
    result.update(view[stop:])
    return result.hexdigest()
