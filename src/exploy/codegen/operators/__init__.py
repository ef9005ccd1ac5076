"""The operators that C code can be written for; each module registers its own."""

from exploy.codegen.operators import (
    activations,
    convolutions,
    elementwise,
    matrices,
    normalizations,
    pooling,
    recurrent,
    shapes,
    softmax,
)
from exploy.codegen.operators.registry import known_operators, writer_of

__all__ = [
    "activations",
    "convolutions",
    "elementwise",
    "known_operators",
    "matrices",
    "normalizations",
    "pooling",
    "recurrent",
    "shapes",
    "softmax",
    "writer_of",
]
