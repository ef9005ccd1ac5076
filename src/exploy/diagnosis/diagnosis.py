"""The result of a check: findings that can be printed as a table or read in code."""

import dataclasses
import io
import os
import shutil
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.text import for_rich

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
_USUAL_SIZE = (140, 40)


@dataclass(frozen=True)
class Diagnosis:
    """The findings of a check, the most severe first.

    Attributes:
        findings: All findings.
        steps: Number of policy steps that were made.
        not_compared: Outputs that no step has shown, so that they were not compared with the environment.
    """

    findings: tuple[Finding, ...]
    steps: int
    not_compared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        severities, kinds = list(Severity), list(FindingKind)
        ordered = sorted(self.findings, key=lambda item: (severities.index(item.severity), kinds.index(item.kind)))
        object.__setattr__(self, "findings", tuple(ordered))

    @property
    def ok(self) -> bool:
        """Whether there are no errors and no warnings."""
        return all(finding.severity is Severity.INFO for finding in self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that make the file wrong."""
        return self.of(Severity.ERROR)

    @property
    def suggestions(self) -> tuple[str, ...]:
        """The suggestions of all errors and warnings, without duplicates, in the order of the findings."""
        wanted = (item.suggestion for item in self.findings if item.severity is not Severity.INFO and item.suggestion)
        return tuple(dict.fromkeys(wanted))

    def with_findings(self, findings: Iterable[Finding]) -> "Diagnosis":
        """The same diagnosis with more findings."""
        return dataclasses.replace(self, findings=(*self.findings, *findings))

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity is severity)

    def __str__(self) -> str:
        width = shutil.get_terminal_size(_USUAL_SIZE).columns
        parts = [self.verdict]
        if self.findings:
            file = io.StringIO()
            Console(file=file, width=width, color_system=None, emoji=False).print(self.table())
            parts.append(file.getvalue().rstrip("\n"))
        if self.suggestions:
            parts.append("Suggested changes:")
            parts += [line for suggestion in self.suggestions for line in _indented(suggestion, width)]
        return "\n".join(parts)

    @property
    def verdict(self) -> str:
        """The result in one line."""
        counts = [(len(self.of(severity)), severity) for severity in Severity]
        found = ", ".join(_counted(count, severity) for count, severity in counts if count)
        steps = f"{self.steps} policy step{'s' if self.steps != 1 else ''}"
        if self.ok:
            return f"No errors or warnings, ready to export ({steps}{f'; {found}' if found else ''})."
        if self.errors:
            return f"The exported file would be wrong: {found} ({steps})."
        return f"Check these findings before exporting: {found} ({steps})."

    def table(self) -> Table:
        """All findings as a rich table, one row each."""
        table = Table("", "finding", "tensor", "what happened", "where")
        table.columns[2].overflow = table.columns[4].overflow = "fold"
        for item in self.findings:
            colour = _COLOURS[item.severity]
            cells = (item.kind, item.tensor, item.what, short_place(item.where))
            table.add_row(f"[{colour}]{item.severity}[/]", *(for_rich(cell) for cell in cells))
        return table


def _counted(count: int, severity: Severity) -> str:
    if severity is Severity.INFO:
        return f"{count} info"
    return f"{count} {severity}{'s' if count > 1 else ''}"


def _indented(suggestion: str, width: int) -> list[str]:
    """The lines of a suggestion. Code is not wrapped, so that it can be pasted; comments are wrapped."""
    lines = []
    for line in suggestion.splitlines():
        is_comment = line.startswith("#")
        lines += textwrap.wrap(line, width - 2, subsequent_indent="# ") if is_comment else [line]
    return [f"  {line}" for line in lines]


def short_place(where: str) -> str:
    """A location with its file relative to the current folder, if that is shorter."""
    file, separator, line = where.partition(":")
    if not os.path.isabs(file):
        return where
    try:
        return f"{min(file, os.path.relpath(file), key=len)}{separator}{line}"
    except ValueError:  # a different drive on Windows
        return where
