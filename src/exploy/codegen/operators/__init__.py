"""The operators that C code can be written for; each module registers its own."""

from exploy.codegen.operators import activations, elementwise, gathers, matrices, reductions, scatters, shapes
from exploy.codegen.operators.registry import known_operators, writer_of

__all__ = [
    "activations",
    "elementwise",
    "gathers",
    "known_operators",
    "matrices",
    "reductions",
    "scatters",
    "shapes",
    "writer_of",
]
