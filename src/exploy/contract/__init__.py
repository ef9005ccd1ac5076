"""The contract of a file: ports, rates, memories, frozen values, provenance and a trace for testing.

Does not need torch. Stored in the file as one versioned JSON document. The dataclasses are its only definition: the
reader and docs/contract.schema.json are derived from them.
"""

from exploy.contract.arrays import EncodedArray, decode_array, digest, encode_array
from exploy.contract.document import Contract
from exploy.contract.parts import (
    FORMAT_VERSION,
    METADATA_KEY,
    NO_DIGEST,
    STEP_COUNT,
    Frozen,
    GitCommit,
    GoldenTrace,
    InputSource,
    ObservationTerm,
    Port,
    PortKind,
    Provenance,
    StoredMemory,
    UsedSubstitute,
)
from exploy.contract.terms import terms_of

__all__ = [
    "FORMAT_VERSION",
    "METADATA_KEY",
    "NO_DIGEST",
    "STEP_COUNT",
    "Contract",
    "EncodedArray",
    "Frozen",
    "GitCommit",
    "GoldenTrace",
    "InputSource",
    "PortKind",
    "StoredMemory",
    "UsedSubstitute",
    "ObservationTerm",
    "Port",
    "Provenance",
    "decode_array",
    "digest",
    "encode_array",
    "terms_of",
]
