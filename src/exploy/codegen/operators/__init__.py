"""The operators that C code can be written for; each module registers its own."""

from exploy.codegen.operators import (
    activations,
    convolutions,
    elementwise,
    gathers,
    matrices,
    normalizations,
    pooling,
    recurrent,
    reductions,
    scatters,
    shapes,
    softmax,
)
from exploy.codegen.operators.registry import known_operators, writer_of

__all__ = [
    "activations",
    "convolutions",
    "elementwise",
    "gathers",
    "known_operators",
    "matrices",
    "normalizations",
    "pooling",
    "recurrent",
    "reductions",
    "scatters",
    "shapes",
    "softmax",
    "writer_of",
]
