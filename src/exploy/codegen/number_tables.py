"""Writes tables of numbers: as numbers that people can read, or as bytes that the compiler includes."""

from collections.abc import Iterable, Sequence

import numpy as np

from exploy.codegen.c_types import c_type, literal
from exploy.codegen.tables import Table

LARGEST_AS_NUMBERS = 1_000_000  # parameters; more take long to compile
_PER_LINE = 8
_ALIGNMENT = 64


def declaration(table: Table) -> str:
    """The type, the name and the size of a table."""
    return f"const {c_type(table.array.dtype).name} {table.name}[{max(1, table.array.size)}]"


def definition(table: Table, linkage: str = "") -> str:
    """A table with its numbers; a large one starts where a line of the cache does, as vectors of 64 bytes need it."""
    alignment = "" if table.is_small else f"_Alignas({_ALIGNMENT}) "
    numbers = [literal(value, table.array.dtype) for value in table.array] or ["0"]
    lines = [f"  {', '.join(numbers[start : start + _PER_LINE])}" for start in range(0, len(numbers), _PER_LINE)]
    return f"{linkage}{alignment}{declaration(table)} = {{\n" + ",\n".join(lines) + "\n};\n"


def as_bytes(tables: Sequence[Table]) -> tuple[bytes, list[int]]:
    """The numbers of tables one behind the other, little-endian, and where each starts."""
    parts, starts, position = [], [], 0
    for table in tables:
        gap = -position % _ALIGNMENT
        data = np.ascontiguousarray(table.array, table.array.dtype.newbyteorder("<")).tobytes()
        parts += [bytes(gap), data]
        starts.append(position + gap)
        position += gap + len(data)
    return b"".join(parts), starts


def included(tables: Iterable[Table], starts: Iterable[int], file: str) -> str:
    """Assembler that gives parts of a file the names of tables."""
    lines = [
        f'  TABLE("{table.name}", "{file}", "{start}", "{max(1, table.array.nbytes)}")'
        for table, start in zip(tables, starts, strict=True)
    ]
    return _ASSEMBLER + "\n".join(lines) + "\n"


_ASSEMBLER = f"""\
#if defined(__APPLE__)
#define SECTION ".const_data\\n"
#define SYMBOL(name) "_" name
#elif defined(__ELF__)
#define SECTION ".section .rodata\\n"
#define SYMBOL(name) name
#else
#error "These weights are included by the assembler, which is known for ELF and Mach-O only."
#endif
#if defined(__BYTE_ORDER__) && (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
#error "These weights are little-endian."
#endif

#define TABLE(name, file, start, size) \\
  __asm__(SECTION ".balign {_ALIGNMENT}\\n" \\
          ".globl " SYMBOL(name) "\\n" SYMBOL(name) ":\\n.incbin \\"" file "\\", " start ", " size "\\n.text\\n");

"""
