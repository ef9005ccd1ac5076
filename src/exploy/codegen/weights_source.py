"""Writes the C file of a program's large tables: as numbers, or as a file of bytes that the assembler includes."""

from exploy.codegen.number_tables import LARGEST_AS_NUMBERS, as_bytes, definition, included
from exploy.codegen.program import Program


def weights_files(program: Program, *, as_numbers: bool = False) -> dict[str, bytes]:
    """The files `NAME_weights.c` and, for many parameters, `NAME_weights.bin`; nothing without large tables.

    Args:
        program: The program.
        as_numbers: Write numbers however many there are, for compilers whose assembler has no `.incbin`.
    """
    name = program.name
    tables = [table for table in program.tables if not table.is_small]
    if not tables:
        return {}
    head = f"/* {name}_weights.c: the large tables of {name}. Made by exploy; {name}.c declares them. */\n"
    if as_numbers or sum(table.array.size for table in tables) <= LARGEST_AS_NUMBERS:
        includes = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n\n"
        return {f"{name}_weights.c": (head + includes + "\n".join(map(definition, tables))).encode()}
    data, starts = as_bytes(tables)
    note = (
        f"/* The numbers are in {name}_weights.bin. The assembler looks for it in the current folder, and in those of\n"
        " * -Wa,-I. For a compiler that cannot include it, write numbers: exploy compile --numbers */\n"
    )
    text = head + note + included(tables, starts, f"{name}_weights.bin")
    return {f"{name}_weights.c": text.encode(), f"{name}_weights.bin": data}
