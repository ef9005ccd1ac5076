"""Tables for the terminal: with rich if it is installed, otherwise as plain columns."""

import importlib.util
import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field

from exploy.text import for_rich, printable

_USUAL_SIZE = (140, 40)


@dataclass
class Table:
    """Rows of strings with headings; `str()` returns the printed form. Cells may have any text."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def __init__(self, *headings: str, rows: Sequence[tuple[str, ...]] = ()):
        self.headings = headings
        self.rows = list(rows)

    def __str__(self) -> str:
        return self._by_rich() if importlib.util.find_spec("rich") is not None else self._plain()

    def _by_rich(self) -> str:
        from rich.console import Console
        from rich.table import Table as RichTable

        table = RichTable(show_header=any(self.headings))
        for heading in self.headings:
            table.add_column(heading, overflow="fold")
        for row in self.rows:
            table.add_row(*(for_rich(cell) for cell in row))
        file = io.StringIO()
        Console(file=file, width=shutil.get_terminal_size(_USUAL_SIZE).columns, color_system=None, emoji=False).print(
            table
        )
        return file.getvalue().rstrip("\n")

    def _plain(self) -> str:
        cells = [tuple(printable(cell) for cell in row) for row in self.rows]
        rows = [self.headings, *cells] if any(self.headings) else cells
        widths = [max(len(row[column]) for row in rows) for column in range(len(self.headings))] if rows else []
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)
