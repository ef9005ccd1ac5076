"""Finds code in the archive of a file: by the names and by the first bytes of its members."""

import io
import re
import struct
import zipfile

_NAMES = re.compile(r"\.(so(\.\d+)*|pyd|dll|dylib|o|a|exe|cubin|fatbin|hsaco|ptx|spv|cpp|py|pyc)$", re.IGNORECASE)
_STARTS = (
    b"\x7fELF",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"!<arch>\n",
)
_LOOKED_AT = 4096


def find_code(data: bytes) -> str | None:
    """Return the name of a member that is a library, a program or its source; None if there is none, or no archive.

    A file of another format may have an archive in it, which readers of archives find from its end.

    Raises:
        Exception: Of any kind, if the archive is damaged.
    """
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return None
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        for item in file.infolist():
            if _NAMES.search(item.filename):
                return item.filename
            with file.open(item) as member:
                start = member.read(_LOOKED_AT)
            if start.startswith(_STARTS) or _is_windows_program(start):
                return item.filename
    return None


def _is_windows_program(start: bytes) -> bool:
    if not start.startswith(b"MZ") or len(start) < 64:
        return False
    (place,) = struct.unpack_from("<I", start, 60)
    return bool(start[place : place + 4] == b"PE\0\0")
