"""The result of a discovery: what to register, what to decide, and what stands in the way."""

import io
import shutil
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from exploy.atomic_write import replacing
from exploy.diagnosis.diagnosis import short_place
from exploy.diagnosis.finding import Finding
from exploy.diagnosis.pasting import paste
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.text import for_rich

_USUAL_SIZE = (140, 40)
_MOST_CONSTANTS = 12
_HEAD = '''"""Registers what the environment and its actor use. Found by exploy.discover(); change it as you like."""

from typing import Any
{imports}

def register(env: Any, actor: Any) -> None:
    """Register the components of the environment."""
'''
_COMPONENTS = ("Connection", "Input", "Memory", "Output")


@dataclass(frozen=True)
class Found:
    """A component to register.

    Attributes:
        kind: "input", "memory", "output" or "connection".
        name: The name of the component.
        path: The tensor, as a Python expression in `env` and `actor`.
        code: The lines that make it.
        note: What a reader should know of it; empty if there is nothing.
        where: The line of user code that reads it.
        instead: The lines that could be there in its place, if that is the user's choice.
    """

    kind: str
    name: str
    path: str
    code: str
    note: str = ""
    where: str = ""
    instead: str = ""


@dataclass(frozen=True)
class Question:
    """A decision that nobody can make by watching.

    Attributes:
        path: What it is about, as a Python expression.
        what: What was seen.
        where: The line of user code that reads it.
        options: The code of each answer, by its name: "input", "constant", or the name of an Output.
        proposal: The answer that seems likely.
    """

    path: str
    what: str
    where: str
    options: dict[str, str]
    proposal: str


@dataclass(frozen=True)
class Discovery:
    """What `exploy.discover()` has found. It prints as a table, followed by the code that says the same.

    Attributes:
        found: The components, in the order of their registration.
        questions: What is left to decide.
        problems: What stands in the way of a right file, as a check finds it.
        constants: Paths of tensors that nothing has moved; the file stores their values.
        steps: Number of policy steps that were made to see what moves.
        resets: Number of resets.
    """

    found: tuple[Found, ...]
    questions: tuple[Question, ...]
    problems: tuple[Finding, ...]
    constants: tuple[str, ...]
    steps: int
    resets: int

    @property
    def ok(self) -> bool:
        """Whether the registration is complete: no questions, and no problems."""
        return not self.questions and not self.problems

    @property
    def code(self) -> str:
        """A module with a function `register(env, actor)`, to paste and to own. Open questions are comments in it."""
        lines: list[str] = []
        for item in self.found:
            lines += _adding(item.code)
            lines += [f"# or instead: {line}" for line in _adding(item.instead)]
        for question in self.questions:
            lines += ["", *_comment(f"To decide: {question.path}: {question.what}")]
            for name, option in question.options.items():
                lines += [f"# {name}{' (proposed)' if name == question.proposal else ''}:"]
                lines += [f"# {line}" for line in _adding(option)]
        if any("add(" in line for line in lines):
            lines.insert(0, "add = env.context_manager().add_component")
        elif all(not line or line.startswith("#") for line in lines):
            lines.append("pass")
        text = "\n".join(lines)
        return _HEAD.format(imports=_imports(text)) + textwrap.indent(text, "    ") + "\n"

    def register(self, env: ExportableEnvironment, actor: torch.nn.Module) -> None:
        """Register what was found; what is left to decide is not registered.

        Raises:
            DuplicateNameError: If the environment has components of these names already. Then nothing is registered.
        """
        manager = env.context_manager()
        for item in self.found:
            manager.assert_unique_name(item.name)
        for item in self.found:
            paste(item.code, env, actor)

    def write(self, path: str | Path) -> Path:
        """Write the code to a file, completely or not at all."""
        target = Path(path)
        with replacing(target) as temporary:
            temporary.write_text(self.code, encoding="utf-8")
        return target

    @property
    def verdict(self) -> str:
        """The result in one line."""
        counts = {kind: sum(item.kind == kind for item in self.found) for kind in _KINDS}
        listed = ", ".join(_counted(count, kind) for kind, count in counts.items() if count) or "nothing to register"
        watched = f"{_counted(self.steps, 'step')} and {_counted(self.resets, 'reset')}"
        open_ends = ", ".join(
            [
                *([f"{len(self.questions)} to decide"] if self.questions else ()),
                *([_counted(len(self.problems), "problem")] if self.problems else ()),
            ]
        )
        return f"Found {listed} in {watched}{f'; {open_ends}' if open_ends else ', and nothing is left open'}."

    def __str__(self) -> str:
        file = io.StringIO()
        width = shutil.get_terminal_size(_USUAL_SIZE).columns
        console = Console(file=file, width=width, color_system=None, emoji=False)
        console.print(for_rich(self.verdict), highlight=False, soft_wrap=True)
        console.print(self.table())
        if self.constants:
            console.print(for_rich(self.constants_line), highlight=False)
        print(f"\n{self.code}", file=file)
        return file.getvalue().rstrip("\n")

    @property
    def constants_line(self) -> str:
        """The tensors that the file will store, in one line."""
        shown, more = self.constants[:_MOST_CONSTANTS], len(self.constants) - _MOST_CONSTANTS
        return f"Constants, which nothing has moved: {', '.join(shown)}{f' and {more} more' if more > 0 else ''}."

    def table(self) -> Table:
        """All components, questions and problems as a rich table."""
        table = Table("", "name", "tensor", "what", "where")
        for column in (2, 4):
            table.columns[column].overflow = "fold"
            table.columns[column].ratio = 3
        table.columns[3].ratio = 2
        rows = [
            (item.kind, item.name, item.path if item.path != item.name else "", item.note, item.where)
            for item in self.found
        ]
        for question in self.questions:
            what = f"{question.what}{_answers(question)}"
            rows.append(("[yellow]to decide[/]", "", question.path, what, question.where))
        for item in self.problems:
            advice = item.suggestion.removeprefix("# ") if item.suggestion else ""
            what = f"{item.what}{f'. What to do: {advice}' if advice else ''}"
            rows.append((f"[red]{item.kind}[/]", "", item.tensor, what, item.where))
        for kind, *cells, where in rows:
            table.add_row(kind, *(for_rich(cell) for cell in cells), for_rich(short_place(where)))
        return table


_KINDS = ("input", "memory", "output", "connection", "constant")


def _answers(question: Question) -> str:
    answers = " or ".join(question.options)
    proposed = f" Proposed: {question.proposal}." if len(question.options) > 1 and question.proposal else ""
    return f". {answers[:1].upper()}{answers[1:]}?{proposed}"


def _imports(code: str) -> str:
    """The import lines that code needs."""
    names = [name for name in _COMPONENTS if f"add({name}(" in code]
    lines = ["import torch"] if "torch." in code else []
    lines += [f"from exploy import {', '.join(names)}"] if names else []
    lines += ["from exploy.environment.actor import add_actor_memory"] if "add_actor_memory(" in code else []
    return "".join(f"\n{line}" for line in [*lines, ""])


def _adding(code: str) -> list[str]:
    """The lines that make a component, with the call that adds it."""
    starts = ("Input(", "Memory(", "Output(", "Connection(")
    return [f"add({line})" if line.startswith(starts) else line for line in code.splitlines()]


def _comment(text: str) -> Iterable[str]:
    return textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ")


def _counted(count: int, noun: str) -> str:
    plural = {"memory": "memories"}.get(noun, f"{noun}s")
    return f"{count} {noun if count == 1 else plural}"
