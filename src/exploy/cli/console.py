"""Where commands print to."""

import json
import sys
from typing import Any

from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 120


def output() -> Console:
    """The console for results; of a fixed width where there is no terminal."""
    has_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console() if has_terminal else Console(width=_WIDTH_WITHOUT_TERMINAL)


def print_json(document: Any) -> None:
    """Print a document for other programs."""
    print(json.dumps(document, indent=2, allow_nan=False))


def mark(is_good: bool, good: str, bad: str) -> str:
    """A word in the colour of what it says."""
    return f"[green]{good}[/]" if is_good else f"[red]{bad}[/]"
