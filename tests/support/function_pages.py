"""Tells how functions of a library end in a file, as rows of a page of the documentation."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.support.function_runs import NO_RESULT, Call, run_call, why_skipped
from tests.support.library_functions import Function
from tests.support.operator_runs import REFUSED, RIGHT

_PLACE = re.compile(r"^\S+\.py:\d+ \(in \S+\): ")  # some are lines of the tests
_PATHS = re.compile(r"\S*/(\w+\.py:\d+)")
_ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<result>works|refused|skipped)", re.MULTILINE)

CallsOf = Callable[[Function], list[Call]]


@dataclass(frozen=True)
class Row:
    """What became of a function: works, refused or skipped, and why."""

    name: str
    result: str
    why: str = ""

    def __str__(self) -> str:
        why = re.sub(r"([][|<>*])", r"\\\1", self.why)
        return f"| `{self.name}` | {self.result}{f': {why}' if why else ''} |"


def row_of(function: Function, calls_of: CallsOf) -> Row:
    """Make the calls of a function in torch and in a file; raises AssertionError if a file gives something else."""
    if function.is_class:
        return Row(function.name, "skipped", "a class")
    if function.returns_nothing:
        return Row(function.name, "skipped", NO_RESULT)
    tried = [(call, why_skipped(call)) for call in calls_of(function)]
    skipped = [why for _, why in tried if why is not None]
    if len(skipped) == len(tried):
        return Row(function.name, "skipped", skipped[0])
    for call, why in tried:
        outcome = None if why is not None else run_call(call)
        if outcome is not None and outcome.verdict == REFUSED:
            message = _PLACE.sub("", outcome.detail.splitlines()[0])
            return Row(function.name, "refused", _PATHS.sub(r"\1", message))
        assert outcome is None or outcome.verdict == RIGHT, f"{call.name}: {outcome.detail}"
    return Row(function.name, "works")


def page(title: str, introduction: str, functions: Iterable[Function], calls_of: CallsOf) -> str:
    """The whole page, with a table for each module."""
    rows: dict[str, list[Row]] = {}
    for function in functions:
        rows.setdefault(function.module, []).append(row_of(function, calls_of))
    tables = [
        f"## {module}\n\n| function | in a file |\n|---|---|\n" + "\n".join(map(str, found)) + "\n"
        for module, found in rows.items()
    ]
    text = "\n".join(tables)
    works, others = count(text)
    numbers = f"{works} of {works + others} functions that take and return tensors work.\n"
    return f"# {title}\n\n{introduction}\n{numbers}\n{text}"


def count(text: str) -> tuple[int, int]:
    """How many functions of a page work, and how many are refused."""
    results = [match["result"] for match in _ROW.finditer(text)]
    return results.count("works"), results.count("refused")


def section(text: str, module: str) -> str:
    """The part of a page about one module; empty if there is none."""
    return text.partition(f"## {module}\n")[2].partition("\n## ")[0]
