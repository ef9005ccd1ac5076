"""Reads and writes protobuf messages field by field, limited to what ONNX files need.

A robot does not have the onnx package or its schema. The field numbers are those of onnx.proto.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from exploy.contract.limits import MAX_FIELDS

VARINT, _FIXED64, BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_MAX_TAG = 2**32 - 1
_64_BITS = 2**64 - 1


class MalformedMessageError(ValueError):
    """The bytes are not a protobuf message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: its number, the positions of its tag and content, its wire type, and its value if that is
    a number."""

    number: int
    tag: int
    start: int
    stop: int
    wire_type: int
    value: int | None = None


def fields(data: bytes, start: int = 0, stop: int | None = None) -> Iterator[Field]:
    """Yield the fields of the message between two positions.

    Raises:
        MalformedMessageError: If the bytes are not a message, end within a field, or have too many fields.
    """
    position, end = start, len(data) if stop is None else stop
    for _ in range(MAX_FIELDS):
        if position >= end:
            return
        whole = position
        tag, position = _read_varint(data, position, end)
        number, wire_type = tag >> 3, tag & 7
        value = None
        if wire_type == VARINT:
            begin = position
            value, position = _read_varint(data, position, end)
        elif wire_type == BYTES:
            size, begin = _read_varint(data, position, end)
            position = begin + size
        elif wire_type in (_FIXED64, _FIXED32):
            begin, position = position, position + (8 if wire_type == _FIXED64 else 4)
        else:
            raise MalformedMessageError(f"unsupported wire type {wire_type} at byte {position}")
        if number == 0 or tag > _MAX_TAG or position > end:
            raise MalformedMessageError(f"invalid field that ends at byte {position} of {end}")
        yield Field(number, whole, begin, position, wire_type, value)
    if position < end:
        raise MalformedMessageError(f"a message with more than {MAX_FIELDS} fields at byte {start}")


def text(data: bytes, field: Field) -> str:
    """Decode the bytes of a field as a string.

    Raises:
        MalformedMessageError: If they are not UTF-8.
    """
    try:
        return data[field.start : field.stop].decode()
    except UnicodeDecodeError as error:
        raise MalformedMessageError(str(error)) from error


def encoded(number: int, content: bytes) -> bytes:
    """Encode a field of bytes."""
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        if position >= end:
            raise MalformedMessageError(f"the message ends within a number at byte {position}")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _64_BITS, position
    raise MalformedMessageError(f"number with more than {_MAX_VARINT_BYTES} bytes at byte {position}")


def _varint(value: int) -> bytes:
    encoded_bytes = bytearray()
    while value > 0x7F:
        encoded_bytes.append(value & 0x7F | 0x80)
        value >>= 7
    encoded_bytes.append(value)
    return bytes(encoded_bytes)
