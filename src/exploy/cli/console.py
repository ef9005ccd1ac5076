"""Output of commands."""

import json
import sys
from typing import Any

from rich.console import Console

_WIDTH_WITHOUT_TERMINAL = 120


def output() -> Console:
    """The console for results. Without a terminal it has a fixed width."""
    has_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console(emoji=False) if has_terminal else Console(width=_WIDTH_WITHOUT_TERMINAL, emoji=False)


def print_json(document: Any) -> None:
    """Print a document as JSON."""
    print(json.dumps(document, indent=2, allow_nan=False))


def mark(is_good: bool, good: str, bad: str) -> str:
    """The text `good` in green or the text `bad` in red."""
    return f"[green]{good}[/]" if is_good else f"[red]{bad}[/]"
