"""The messages of an ONNX file that are read here: which of their fields are text or messages, and which may repeat.

Protobuf merges a field that occurs twice, and skips one of another wire type. A file that needs either could mean
something else to onnxruntime than it does here, so both are refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from exploy.runtime.onnx import protobuf
from exploy.runtime.onnx.protobuf import Field, MalformedMessageError


@dataclass(frozen=True)
class Form:
    """A message: its name, its fields of text or messages, its fields of one number, and those that may repeat."""

    name: str
    of_bytes: frozenset[int]
    of_numbers: frozenset[int] = frozenset()
    repeated: frozenset[int] = frozenset()

    def fields(self, data: bytes, place: Field | None = None) -> Iterator[Field]:
        """Yield the fields of a message; of the whole bytes if there is no place.

        Raises:
            MalformedMessageError: If the bytes are not such a message.
        """
        seen: set[int] = set()
        start, stop = (0, len(data)) if place is None else (place.start, place.stop)
        for item in protobuf.fields(data, start, stop):
            number = item.number
            if number in self.of_bytes:
                expected = protobuf.BYTES
            elif number in self.of_numbers:
                expected = protobuf.VARINT
            else:
                yield item
                continue
            if item.wire_type != expected:
                raise MalformedMessageError(f"field {number} of a {self.name} is of another kind, at byte {item.tag}")
            if number not in self.repeated:
                if number in seen:
                    raise MalformedMessageError(f"a {self.name} has field {number} twice, at byte {item.tag}")
                seen.add(number)
            yield item


def _form(name: str, of_bytes: set[int], of_numbers: set[int] | None = None, repeated: set[int] | None = None) -> Form:
    return Form(name, frozenset(of_bytes), frozenset(of_numbers or ()), frozenset(repeated or ()))


# The numbers are those of onnx.proto.
MODEL = _form("model", {2, 3, 4, 6, 7, 8, 14, 20, 25, 26}, {1, 5}, {8, 14, 20, 25, 26})
GRAPH = _form("graph", {1, 2, 5, 10, 11, 12, 13, 14, 15, 16}, None, {1, 5, 11, 12, 13, 14, 15, 16})
NODE = _form("node", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, None, {1, 2, 5, 9, 10})
ATTRIBUTE = _form("attribute", {1, 4, 5, 6, 9, 10, 11, 13, 14, 15, 21, 22, 23}, {3, 20}, {9, 10, 11, 15, 23})
TENSOR = _form("tensor", {3, 6, 8, 9, 12, 13, 16}, {2, 14}, {6, 13, 16})
SPARSE_TENSOR = _form("sparse tensor", {1, 2})
FUNCTION = _form("function", {1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, None, {4, 5, 6, 7, 9, 11, 12, 14})
VALUE = _form("value", {1, 2, 3, 4}, None, {4})
OPSET_IMPORT = _form("opset import", {1}, {2})
ENTRY = _form("metadata entry", {1, 2})
