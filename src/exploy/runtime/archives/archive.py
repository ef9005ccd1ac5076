"""Files of backends other than ONNX: archives with the contract and the data of the backend."""

import hashlib
import io
import zipfile
import zlib

from exploy.contract import METADATA_KEY, NO_DIGEST, Contract
from exploy.errors import ContractError
from exploy.runtime.archives.layout import Member, members_of
from exploy.runtime.digests import require_digest

EXTRA = f"extra/{METADATA_KEY}"
"""Where the contract is in archives that have a place for extra files, as torch's do."""

PLAIN = "contract.json"
"""Where it is in archives that people unpack. It counts if there is none in the other place."""

_START = b"PK\x03\x04"
_AFTER_DIGEST = '"}'
_CHECKSUM_BYTES = 4


def is_archive(data: bytes) -> bool:
    """Return whether these are the bytes of an archive."""
    return data.startswith(_START)


def seal(data: bytes, contract: Contract, member: str = EXTRA) -> bytes:
    """Add a contract to an archive, with the digest of everything else. The archive must not have a contract yet.

    Args:
        data: The bytes of the archive.
        contract: The contract, without a digest.
        member: Where the contract is put, in the folder of the archive: EXTRA or PLAIN.

    Raises:
        ContractError: If a file of this archive would be refused.
    """
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as file:
        names = file.namelist()
        folder = names[0].split("/")[0] if names and "/" in names[0] else ""
        name = "/".join(part for part in (folder, member) if part)
        assert contract.digest == NO_DIGEST
        file.writestr(zipfile.ZipInfo(name), contract.to_json())
    sealed = bytearray(buffer.getvalue())
    found = _contract_of(bytes(sealed), "The archive")
    start, stop = _digest_span(found)
    sealed[start:stop] = _digest(sealed, found).encode()
    checksum = zlib.crc32(sealed[found.start : found.stop]).to_bytes(_CHECKSUM_BYTES, "little")
    for place in found.checksums:
        sealed[place : place + _CHECKSUM_BYTES] = checksum
    return bytes(sealed)


def read_sealed(data: bytes, name: str) -> Contract:
    """Read the contract from the bytes of an archive, and check the digest.

    Raises:
        ContractError: If the bytes are not an archive with one contract, or were changed after the export.
    """
    member = _contract_of(data, name)
    text = data[member.start : member.stop]
    checksum = zlib.crc32(text).to_bytes(_CHECKSUM_BYTES, "little")
    if any(data[place : place + _CHECKSUM_BYTES] != checksum for place in member.checksums):
        raise ContractError(f"{name} is damaged: the checksum of its contract is wrong. Copy it again.")
    try:
        contract = Contract.from_json(text.decode())
    except UnicodeDecodeError as error:
        raise ContractError(f"The contract of {name} is damaged: {error}. Copy the file again.") from None
    require_digest(name, contract, _digest(data, member))
    return contract


def _contract_of(data: bytes, name: str) -> Member:
    """Find the contract: the last member."""
    try:
        members = members_of(data)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise ContractError(f"{name} is damaged or truncated ({error}). Copy it again, or export it again.") from None
    places = [member for member in members if member.name.split("/")[-2:] == EXTRA.split("/")]
    places = places or [member for member in members if member.name.split("/")[1:] == [PLAIN]]
    if len(places) != 1 or places[0] is not members[-1] or places[0].is_packed:
        raise ContractError(
            f"{name} is an archive with {len(places) or 'no'} contracts ({EXTRA}); a file made by "
            "exploy has one, as its last member. Export it with exploy."
        )
    return places[0]


def _digest_span(contract: Member) -> tuple[int, int]:
    """Where the digest starts and stops: last in the contract."""
    stop = contract.stop - len(_AFTER_DIGEST)
    return stop - len(NO_DIGEST), stop


def _digest(data: bytes | bytearray, contract: Member) -> str:
    """SHA-256 of all bytes except the digest, and the two checksums of the contract, which depend on it."""
    result = hashlib.sha256()
    local, central = ((place, place + _CHECKSUM_BYTES) for place in contract.checksums)
    position = 0
    view = memoryview(data)
    for start, stop in (local, _digest_span(contract), central):
        result.update(view[position:start])
        position = stop
    result.update(view[position:])
    return result.hexdigest()
