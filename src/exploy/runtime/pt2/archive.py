"""Files of backends other than ONNX: archives with the contract and the data of the backend."""

import hashlib
import io
import zipfile

from exploy.contract import METADATA_KEY, NO_DIGEST, Contract
from exploy.errors import ContractError
from exploy.runtime.digests import require_digest

_START = b"PK\x03\x04"
_FOLDER = "extra"


def is_archive(data: bytes) -> bool:
    """Return whether these are the bytes of an archive."""
    return data.startswith(_START)


def seal(data: bytes, contract: Contract) -> bytes:
    """Add a contract to an archive, with the digest of everything else. The archive must not have a contract yet."""
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as file:
        names = file.namelist()
        folder = names[0].split("/")[0] if names and "/" in names[0] else ""
        name = "/".join(part for part in (folder, _FOLDER, METADATA_KEY) if part)
        text = contract.to_json()
        assert contract.digest == NO_DIGEST
        found = _digest(file, name, text)
        file.writestr(zipfile.ZipInfo(name), _with_digest(text, found))
    return buffer.getvalue()


def read_sealed(data: bytes, name: str) -> Contract:
    """Read the contract from the bytes of an archive, and check the digest.

    Raises:
        ContractError: If the bytes are not an archive with one contract, or were changed after the export.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            names = file.namelist()
            places = [item for item in names if item.split("/")[-2:] == [_FOLDER, METADATA_KEY]]
            if len(places) != 1 or len(set(names)) != len(names):
                raise ContractError(
                    f"{name} is an archive with {len(places) or 'no'} contracts ({_FOLDER}/{METADATA_KEY}); a file "
                    "made by exploy has one. Export it with exploy."
                )
            text = file.read(places[0]).decode()
            contract = Contract.from_json(text)
            found = _digest(file, places[0], text[: -len(NO_DIGEST) - 2] + NO_DIGEST + text[-2:])
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError, OSError, ValueError) as error:
        if isinstance(error, ContractError):
            raise
        raise ContractError(f"{name} is damaged or truncated ({error}). Copy it again, or export it again.") from None
    require_digest(name, contract, found)
    return contract


def _digest(file: zipfile.ZipFile, contract_name: str, text: str) -> str:
    """SHA-256 of all names and contents, and of the contract without its digest."""
    result = hashlib.sha256()
    for name in sorted(file.namelist()):
        if name != contract_name:
            result.update(f"{name}\0".encode())
            result.update(hashlib.sha256(file.read(name)).digest())
    result.update(text.encode())
    return result.hexdigest()


def _with_digest(text: str, digest: str) -> str:
    assert text.endswith(f'"{NO_DIGEST}"}}')
    return f'{text[: -len(NO_DIGEST) - 2]}{digest}"}}'
