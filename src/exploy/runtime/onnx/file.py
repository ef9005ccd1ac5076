"""What the bytes of an ONNX file say before onnxruntime sees them: its contract, and whether it was changed."""

import hashlib
from dataclasses import dataclass

from exploy.contract import METADATA_KEY, NO_DIGEST, Contract
from exploy.errors import ContractError
from exploy.runtime.digests import require_digest
from exploy.runtime.onnx import protobuf

_IR_VERSION, _GRAPH, _OPSET_IMPORT, _METADATA = 1, 7, 8, 14
_KEY, _VALUE = 1, 2  # of an entry of the metadata
_DOMAIN, _VERSION = 1, 2  # of an opset import
_DEFAULT_DOMAINS = ("", "ai.onnx")
_AFTER_DIGEST = '"}'


def read_sealed(data: bytes, name: str) -> Contract:
    """The contract in the bytes of an ONNX file, whose digest is right.

    Raises:
        ContractError: If they are no ONNX model, or one without a contract, or not the bytes that were exported.
    """
    outline = _Outline.of(data, name)
    contract = Contract.from_json(outline.document(data, name))
    require_digest(name, contract, _hash(data, *outline.digest_span))
    return contract


def versions_of(data: bytes) -> tuple[int, int]:
    """IR version and opset of an ONNX file.

    Raises:
        ContractError: If it is none.
    """
    outline = _Outline.of(data, "The file")
    return outline.ir_version, outline.opset


def seal(data: bytes) -> bytes:
    """The bytes of a model with the digest of all others in its contract, which must have had none.

    Raises:
        ContractError: If the model has no contract, or one that is sealed already.
    """
    outline = _Outline.of(data, "The model")
    contract = Contract.from_json(outline.document(data, "The model"))
    if contract.digest != NO_DIGEST:
        raise ContractError("The model is sealed already. Build its contract without a digest.")
    start, stop = outline.digest_span
    assert data[start:stop].decode() == NO_DIGEST
    return data[:start] + _hash(data, start, stop).encode() + data[stop:]


@dataclass(frozen=True)
class _Outline:
    """Where things are in a model."""

    ir_version: int
    opset: int
    has_graph: bool
    contracts: list[tuple[int, int]]

    @classmethod
    def of(cls, data: bytes, name: str) -> "_Outline":
        try:
            outline = _outline(data)
        except protobuf.MalformedMessageError as error:
            raise ContractError(
                f"{name} is no ONNX file, or is truncated or damaged ({error}). Copy it again, or export anew."
            ) from None
        if not outline.has_graph:
            raise ContractError(f"{name} is no ONNX file: it has no graph. Give the path of an exported policy.onnx.")
        return outline

    def document(self, data: bytes, name: str) -> str:
        if len(self.contracts) != 1:
            raise ContractError(
                f"{name} has {len(self.contracts) or 'no'} contract{'s' if self.contracts else ''} in its metadata "
                f"({METADATA_KEY}); a file made by exploy has one. Export it with exploy."
            )
        start, stop = self.contracts[0]
        try:
            return data[start:stop].decode()
        except UnicodeDecodeError as error:
            raise ContractError(f"The contract of {name} is damaged: {error}. Copy the file again.") from None

    @property
    def digest_span(self) -> tuple[int, int]:
        """Where the digest is: last in the contract."""
        stop = self.contracts[0][1] - len(_AFTER_DIGEST)
        return stop - len(NO_DIGEST), stop


def _outline(data: bytes) -> _Outline:
    ir_version = opset = 0
    has_graph = False
    contracts = []
    for field in protobuf.fields(data):
        if field.number == _IR_VERSION:
            ir_version = field.value or 0
        elif field.number == _GRAPH:
            has_graph = True
        elif field.number == _OPSET_IMPORT:
            entry = {item.number: item for item in protobuf.fields(data, field.start, field.stop)}
            if _DOMAIN not in entry or protobuf.text(data, entry[_DOMAIN]) in _DEFAULT_DOMAINS:
                opset = (entry[_VERSION].value or 0) if _VERSION in entry else 0
        elif field.number == _METADATA:
            entry = {item.number: item for item in protobuf.fields(data, field.start, field.stop)}
            if _KEY in entry and _VALUE in entry and protobuf.text(data, entry[_KEY]) == METADATA_KEY:
                contracts.append((entry[_VALUE].start, entry[_VALUE].stop))
    return _Outline(ir_version, opset, has_graph, contracts)


def _hash(data: bytes, start: int, stop: int) -> str:
    """SHA-256 of all bytes but those between two places."""
    view = memoryview(data)
    result = hashlib.sha256(view[:start])
    result.update(view[stop:])
    return result.hexdigest()
