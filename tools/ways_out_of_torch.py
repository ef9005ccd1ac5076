"""Writes docs/ways_out_of_torch.md from the table that the tests try: `python -m tools.ways_out_of_torch`."""

from pathlib import Path

from tests.support.ways_out_of_torch import WAYS, Way

PAGE = Path(__file__).parents[1] / "docs" / "ways_out_of_torch.md"

_HEAD = """\
# Ways out of torch

A file contains torch operations. A value that leaves torch (for a branch, a number, a numpy array, a string) is not in
the file: its result would be a constant. This page lists every way out that we know, and what exploy does with it. The
tests try each row, and this page is generated from their table.

In each expression, `x` is a float tensor of shape (1, 2) and `i` an integer tensor of shape (2,). What happens depends
on what they are:

- **An Input or Memory**, or computed from one. *Followed*: the file computes it. *Refused*: the capture raises a
  `CaptureError` with your line, also if your code catches it.
- **A constant**: depends on no Input or Memory. *Frozen, listed*: allowed. The tensor is in the list of frozen tensors,
  in the contract, and is watched: `check_environment()` and `evaluate()` name it when it changes.

*Reads no value*: nothing can become wrong.
"""

_THREADS = """
Work in another thread is not recorded. What it computes is a constant in the captured program. The comparison with the
environment at the end of an export finds that, and `check_environment()` and `evaluate()` do.
"""


def page() -> str:
    """The page as Markdown."""
    return _HEAD + "".join(_section(title, ways) for title, ways in WAYS.items()) + _THREADS


def _section(title: str, ways: list[Way]) -> str:
    rows = "".join(f"| `{_escaped(way.code)}` | {way.of_input} | {way.of_constant} |\n" for way in ways)
    return f"\n## {title}\n\n| expression | of an Input or Memory | of a constant |\n|---|---|---|\n{rows}"


def _escaped(code: str) -> str:
    return code.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
