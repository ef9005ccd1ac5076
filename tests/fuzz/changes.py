"""Ways to damage bytes, JSON documents and protobuf messages, chosen by a random generator."""

import copy
import json
from random import Random
from typing import Any

from exploy.runtime.onnx import protobuf

HOSTILE_TEXTS = [
    "",
    "\0",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202egnp.exe",
    "[red]x[/red]",
    "[link=http://x]y[/link]",
    "<script>alert(1)</script>",
    "{{ 7*7 }}",
    "../../etc/passwd",
    "a" * 10_000,
    "x\ny",
    "float32",
    "memory",
    "step_count",
    "ctx.step_count",
    "object",
    "O",
    "V8",
    "f4,f4",
    "torch_export",
    "onnx",
    "0" * 64,
]
HOSTILE_NUMBERS: list[Any] = [
    0, -1, 1, 2, 3, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, -(2**63), 0.5, -0.0,
    1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"),
]  # fmt: skip
HOSTILE_VALUES: list[Any] = [None, True, False, [], {}, [[]], {"": {}}, "1", [None] * 50]


def change_bytes(data: bytes, random: Random) -> bytes:
    """Flip, cut, splice, repeat, overwrite."""
    changed = bytearray(data)
    kind = random.randrange(8)
    first, second = sorted((random.randrange(len(data)), random.randrange(len(data))))
    if kind <= 2:
        for _ in range(random.choice((1, 1, 1, 2, 8))):
            changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    elif kind == 3:
        del changed[random.choice((first, len(data) - 1 - random.randrange(min(100, len(data))))) :]
    elif kind == 4:
        stop = first + random.choice((1, 2, 4, 16, second - first))
        del changed[first:stop]
    elif kind == 5:
        changed[first:first] = data[second : second + random.choice((1, 4, 64, 4096))]
    elif kind == 6:
        length = random.choice((1, 2, 4, 8, 64))
        changed[first : first + length] = bytes([random.choice((0, 0xFF, 0x7F, 0x80, random.randrange(256)))]) * length
    else:
        changed += random.choice((b"\0", b"\n", random.randbytes(20), data[:100]))
    return bytes(changed)


# -- JSON -----------------------------------------------------------------------------------------------------


def change_json(document: Any, random: Random) -> str:
    """Change some places of a document, and return its text."""
    document = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        places = list(_places(document))
        if not places:
            break
        container, key = random.choice(places)
        _change_at(container, key, random)
    text = json.dumps(document, separators=(",", ":"))
    if random.randrange(60) == 0:
        depth = random.choice((70, 500, 5_000, 100_000))
        text = '{"deep":' + "[" * depth + "]" * depth + "," + text[1:]
    if random.randrange(60) == 0:
        text = text.replace(":1,", random.choice((":1e400,", f":{'9' * 5000},", ":-0,", ":1.0,")), 1)
    return text


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        item = pending.pop()
        keys: Any = item.keys() if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in keys:
            found.append((item, key))
            pending.append(item[key])
    return found


def _change_at(container: Any, key: Any, random: Random) -> None:
    kind = random.randrange(8)
    value = container[key]
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, list):
        container.append(copy.deepcopy(value))
    elif kind == 1:
        container[random.choice(HOSTILE_TEXTS)] = copy.deepcopy(value)
    elif kind == 2:
        other = random.choice(list(container) if isinstance(container, dict) else range(len(container)))
        container[key], container[other] = container[other], value
    elif kind == 3 and isinstance(value, str) and value:
        place = random.randrange(len(value))
        container[key] = value[:place] + chr(random.choice((0, 10, 27, 65, 0x202E, 0xD800, 0x1F600))) + value[place:]
    elif kind == 3 and isinstance(value, list):
        container[key] = [copy.deepcopy(item) for item in value * random.choice((2, 10, 100))]
    elif isinstance(value, bool) or value is None:
        container[key] = copy.deepcopy(random.choice([True, False, None, *HOSTILE_VALUES]))
    elif isinstance(value, int | float) and kind < 7:
        container[key] = random.choice([*HOSTILE_NUMBERS, value + 1, value - 1, value * 2])
    elif isinstance(value, str) and kind < 7:
        container[key] = random.choice(HOSTILE_TEXTS)
    else:
        container[key] = copy.deepcopy(random.choice([*HOSTILE_VALUES, *HOSTILE_NUMBERS, *HOSTILE_TEXTS]))


# -- protobuf -------------------------------------------------------------------------------------------------

_GRAPH, _NODE, _ATTRIBUTE, _TENSOR, _VALUE, _SPARSE, _FUNCTION, _IMPORT = range(1, 9)
_TYPE, _TENSOR_TYPE, _SHAPE, _SIZE = range(9, 13)
_INSIDE: dict[int, dict[int, int]] = {  # the messages inside of each message, by the number of the field
    0: {7: _GRAPH, 8: _IMPORT, 25: _FUNCTION},
    _GRAPH: {1: _NODE, 5: _TENSOR, 11: _VALUE, 12: _VALUE, 13: _VALUE, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _VALUE: {2: _TYPE},
    _TYPE: {1: _TENSOR_TYPE},
    _TENSOR_TYPE: {2: _SHAPE},
    _SHAPE: {1: _SIZE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _FUNCTION: {7: _NODE, 9: _IMPORT, 11: _ATTRIBUTE},
}
OPERATORS = tuple(
    name.encode()
    for name in [
        "Identity",
        "Neg",
        "Cast",
        "Reshape",
        "Expand",
        "Tile",
        "Range",
        "ConstantOfShape",
        "OneHot",
        "Gather",
        "GatherND",
        "ScatterND",
        "Slice",
        "Split",
        "Concat",
        "Pad",
        "Resize",
        "NonZero",
        "TopK",
        "Unique",
        "Loop",
        "Scan",
        "If",
        "Where",
        "MatMul",
        "Gemm",
        "LSTM",
        "GRU",
        "Conv",
        "Mod",
        "Pow",
        "Div",
        "Sqrt",
        "Log",
        "Reciprocal",
        "Size",
        "Shape",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Flatten",
        "CumSum",
        "Compress",
        "SequenceEmpty",
        "Optional",
        "StringNormalizer",
        "RandomUniform",
    ]
)
ATTRIBUTES = (b"axis", b"to", b"axes", b"perm", b"keepdims", b"hidden_size", b"dtype", b"k", b"allowzero", b"body")
SIZES = (0, 1, 2, 3, 7, 100, 2**31, 2**40, 2**63, 2**64 - 1, 2**64 - 2, 2**64 - 100)
HOSTILE_BYTES = (b"", b"x", b"y", b"\xff\xfe", b"evil.domain", b"Identity", b"Loop", b"ConstantOfShape", b"Range")
Message = list[list[Any]]  # of [number, wire type, value]; the value is a Message, bytes, or a number


def parse_message(data: bytes, kind: int = 0) -> Message:
    """Parse a model into lists that can be changed."""
    found: Message = []
    for item in protobuf.fields(data):
        value: Any = item.value if item.wire_type == protobuf.VARINT else data[item.start : item.stop]
        inside = _INSIDE.get(kind, {}).get(item.number)
        if inside is not None and item.wire_type == protobuf.BYTES:
            value = parse_message(value, inside)
        found.append([item.number, item.wire_type, value])
    return found


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message."""
    parts = []
    for number, wire_type, value in message:
        tag = _varint(number << 3 | wire_type)
        if isinstance(value, int):
            parts.append(tag + _varint(value))
        else:
            data = encode_message(value) if isinstance(value, list) else value
            parts.append(tag + (_varint(len(data)) if wire_type == protobuf.BYTES else b"") + data)
    return b"".join(parts)


def change_message(data: bytes, random: Random) -> bytes:
    """Change some fields of a model."""
    message = parse_message(data)
    if random.randrange(5) == 0:
        _add_node(message, random)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        places = [(owner, index) for owner in _messages(message) for index in range(len(owner))]
        owner, index = random.choice(places)
        is_metadata = owner is message and owner[index][0] == 14
        if not is_metadata:
            _change_field(owner, index, random, places)
    return encode_message(message)


def _add_node(message: Message, random: Random) -> None:
    """Add an operator that reads some values of a graph, and let another operator read its result."""
    graphs = [
        item for item in _messages(message) if any(field[0] == 1 and isinstance(field[2], list) for field in item)
    ]
    graph = random.choice(graphs)
    nodes = [field[2] for field in graph if field[0] == 1 and isinstance(field[2], list)]
    names = [field[2] for node in nodes for field in node if field[0] in (1, 2) and isinstance(field[2], bytes)]
    if not names:
        return
    inputs = [[1, protobuf.BYTES, random.choice(names)] for _ in range(random.choice((0, 1, 1, 2, 3)))]
    attribute = [[1, protobuf.BYTES, random.choice(ATTRIBUTES)], [3, protobuf.VARINT, random.choice(SIZES)]]
    attribute.append([20, protobuf.VARINT, 2])
    node = [*inputs, [2, protobuf.BYTES, b"added"], [4, protobuf.BYTES, random.choice(OPERATORS)]]
    node += [[5, protobuf.BYTES, attribute]] if random.randrange(3) == 0 else []
    graph.insert(random.randrange(len(graph) + 1) if random.randrange(4) == 0 else 0, [1, protobuf.BYTES, node])
    readers = [field for other in nodes for field in other if field[0] == 1 and isinstance(field[2], bytes)]
    if readers:
        random.choice(readers)[2] = b"added"


def _messages(message: Message) -> list[Message]:
    found = [message]
    for item in found:
        found += [value for _, _, value in item if isinstance(value, list)]
    return found


def _change_field(owner: Message, index: int, random: Random, places: list[tuple[Message, int]]) -> None:
    field = owner[index]
    kind = random.randrange(9)
    if kind == 0:
        del owner[index]
    elif kind == 1:
        owner.insert(random.randrange(len(owner) + 1), copy.deepcopy(field))
    elif kind == 2:
        other = random.randrange(len(owner))
        owner[index], owner[other] = owner[other], owner[index]
    elif kind == 3:
        field[0] = random.choice((random.randrange(1, 30), field[0] + 1, 2**29 - 1))
    elif kind == 4:
        source, place = random.choice(places)
        if place < len(source) and source[place][1] == field[1]:
            field[2] = copy.deepcopy(source[place][2])
    elif kind == 5 and isinstance(field[2], list):
        owner[index : index + 1] = [field, [field[0], field[1], list(field[2])]]
    elif kind == 6 and isinstance(field[2], bytes):
        field[2] = random.choice(HOSTILE_BYTES)
    elif isinstance(field[2], int):
        field[2] = random.choice(
            (0, 1, 2, 7, 9, 11, 2**31 - 1, 2**31, 2**63, 2**64 - 1, 2**64 - 2, 2**64 - 100, field[2] + 1)
        )
    elif isinstance(field[2], bytes) and field[2]:
        changed = bytearray(field[2])
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        field[2] = bytes(changed)
    elif isinstance(field[2], list):
        owner.insert(index, [13, protobuf.BYTES, random.randbytes(8)])


def _varint(value: int) -> bytes:
    found = bytearray()
    value &= 2**64 - 1
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
