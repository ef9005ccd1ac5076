"""Where the members of an archive are, for archives that every reader of zip files understands alike."""

import io
import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from exploy.contract.limits import MAX_MEMBERS, MAX_UNPACKED_BYTES, MAX_UNPACKED_RATIO, UNPACKED_FREE_BYTES

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_LOCAL_SIGNATURE, _CENTRAL_SIGNATURE, _END_SIGNATURE = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_LOCAL_CRC, _CENTRAL_CRC = 14, 16  # where the checksum is in either header
_HAS_DESCRIPTOR = 1 << 3  # sizes and checksum follow the data
_DESCRIPTORS = (12, 16, 20, 24)
_ALLOWED_FLAGS = _HAS_DESCRIPTOR | 1 << 11 | 0b110
_NAME = re.compile(r"[^/\\:\x00-\x1f\x7f]+(/[^/\\:\x00-\x1f\x7f]+)*")


class LayoutError(ValueError):
    """An archive that readers could understand differently, or that would fill the memory."""


@dataclass(frozen=True)
class Member:
    """A member of an archive: its name, where its data starts and stops, and where its two checksums are."""

    name: str
    start: int
    stop: int
    checksums: tuple[int, int]
    is_packed: bool


def members_of(data: bytes) -> list[Member]:
    """Return the members, in order, after checking that the archive has nothing else.

    Headers in front of the data and the directory at the end must say the same; nothing lies between, before or after.

    Raises:
        LayoutError: If it is not such an archive, or has too many or too large members.
        zipfile.BadZipFile: If it is no archive.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        infos = file.infolist()
        start_of_directory = file.start_dir
    if len(infos) > MAX_MEMBERS:
        raise LayoutError(f"{len(infos)} members are more than {MAX_MEMBERS}")
    require_sizes(infos, len(data))
    found = [
        _member(data, info, place)
        for info, place in zip(infos, _directory(data, start_of_directory, infos), strict=True)
    ]
    _require_names([member.name for member in found])
    _require_gapless(found, infos, start_of_directory)
    return found


def require_sizes(infos: list[zipfile.ZipInfo], length: int) -> None:
    """Check that an archive of some bytes does not unpack to very many.

    Raises:
        LayoutError: If it does.
    """
    size = sum(info.file_size for info in infos)
    if size > min(MAX_UNPACKED_BYTES, UNPACKED_FREE_BYTES + MAX_UNPACKED_RATIO * length):
        raise LayoutError(f"{length} bytes would unpack to {size} bytes")


def _require_names(names: list[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name) or not {".", ".."}.isdisjoint(name.split("/")):
            raise LayoutError(f"the member {name!r} has a name that is not a plain path")
    if len({name.casefold() for name in names}) != len(names):  # torch looks names up without regard to case
        raise LayoutError("two members have the same name")


def _require_gapless(members: list[Member], infos: list[zipfile.ZipInfo], end: int) -> None:
    position = 0
    starts = [*(info.header_offset for info in infos), end]
    for member, info, start, following in zip(members, infos, starts, starts[1:], strict=False):
        if start != position:
            raise LayoutError(f"there are unknown bytes in front of the member {member.name!r}")
        gap = following - member.stop
        if gap not in (_DESCRIPTORS if info.flag_bits & _HAS_DESCRIPTOR else (0,)):
            raise LayoutError(f"there are unknown bytes behind the member {member.name!r}")
        position = following


def _directory(data: bytes, start: int, infos: list[zipfile.ZipInfo]) -> Iterator[int]:
    """Yield where the entries of the directory are. It ends the file."""
    end = len(data) - _END.size
    signature, disk, first_disk, here, entries, size, offset, comment = _END.unpack_from(data, end)
    if signature != _END_SIGNATURE or disk or first_disk or comment or not here == entries == len(infos):
        raise LayoutError("it does not end with its directory")
    if offset != start or start + size != end:
        raise LayoutError("its directory is elsewhere than it says")
    position = start
    for _ in infos:
        header = _CENTRAL.unpack_from(data, position)
        if header[0] != _CENTRAL_SIGNATURE:
            raise LayoutError("its directory is damaged")
        yield position
        position += _CENTRAL.size + sum(header[10:13])
    if position != end:
        raise LayoutError("its directory is longer than its entries")


def _member(data: bytes, info: zipfile.ZipInfo, place: int) -> Member:
    """Read the header in front of a member, and compare it with its entry of the directory."""
    central = _CENTRAL.unpack_from(data, place)
    local = _LOCAL.unpack_from(data, info.header_offset)
    flags, method, name_length, extra_length = local[2], local[3], local[9], local[10]
    raw_name = data[place + _CENTRAL.size : place + _CENTRAL.size + central[10]]
    start = info.header_offset + _LOCAL.size
    sizes = [0, 0, 0] if flags & _HAS_DESCRIPTOR else None
    if (
        local[0] != _LOCAL_SIGNATURE
        or data[start : start + name_length] != raw_name
        or flags != central[3]
        or flags & ~_ALLOWED_FLAGS
        or method != central[4]
        or method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        or list(local[6:9]) not in (list(central[7:10]), sizes)
        or info.filename != info.orig_filename
        or (method == zipfile.ZIP_STORED and info.compress_size != info.file_size)
    ):
        raise LayoutError(f"the member {info.orig_filename!r} is described twice, and differently")
    start += name_length + extra_length
    checksums = (info.header_offset + _LOCAL_CRC, place + _CENTRAL_CRC)
    return Member(info.filename, start, start + info.compress_size, checksums, method != zipfile.ZIP_STORED)
