"""What a file may be at most. Real files stay far below; a hostile one is refused before it costs time or memory.

docs/contract.md lists them.
"""

MAX_FILE_BYTES = 4 * 2**30
"""Bytes of a file. ONNX files end at 2 GiB by their format, archives at 4 GiB."""

MAX_CONTRACT_BYTES = 64 * 2**20
"""Bytes of the contract. Start values of memories and the trace are the large parts."""

MAX_JSON_DEPTH = 64
"""Objects and lists inside of each other, in the parts of a JSON document that have no fixed form."""

MAX_DECIMATION = 100_000
"""Ticks per policy step."""

MAX_TRACE_TICKS = 100_000
"""Ticks of the golden trace."""

MAX_PORTS = 10_000
"""Inputs and outputs together."""

MAX_DIMENSIONS = 32
"""Dimensions of a port or a stored array."""

MAX_SIZE = 2**48
"""A size, a count or a position."""

MAX_PORT_BYTES = 2**30
"""Bytes of all ports together, with 1 for each named size."""

MIN_SECONDS, MAX_SECONDS = 1e-9, 1e9
"""Seconds between two ticks."""

MAX_NODES = 500_000
"""Operators of a graph, with those of its subgraphs and functions."""

MAX_FIELDS = 1_000_000
"""Fields of one protobuf message."""

MAX_SUBGRAPHS = 32
"""Subgraphs inside of each other."""

MAX_MEMBERS = 100_000
"""Members of an archive."""

MAX_UNPACKED_BYTES = 4 * 2**30
"""Bytes of all members of an archive together, unpacked."""

MAX_UNPACKED_RATIO = 100
"""Bytes of an archive, unpacked, for each of its bytes; the first 64 MiB do not count."""

UNPACKED_FREE_BYTES = 64 * 2**20
"""What an archive may unpack to whatever its size is."""
