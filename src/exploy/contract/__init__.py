"""What a file says about itself: ports, rates, memories, frozen values, provenance and a trace to test it by.

Torch-free; stored in the file as one versioned JSON document. The dataclasses are the only place that says what is in
it: the reader and docs/contract.schema.json follow from them.
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
    ObservationTerm,
    Port,
    PortKind,
    Provenance,
    StoredMemory,
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
    "PortKind",
    "StoredMemory",
    "ObservationTerm",
    "Port",
    "Provenance",
    "decode_array",
    "digest",
    "encode_array",
    "terms_of",
]
