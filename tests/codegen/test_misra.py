"""docs/c.md lists every rule of MISRA C:2012 that emitted code deviates from, as cppcheck sees it."""

import re
import subprocess
from pathlib import Path

import pytest

from exploy.codegen.sources import write_sources
from tests.support.c_compilers import require_tool
from tests.support.c_samples import sample_program
from tests.support.command_line import ROOT

KINDS = ("demo", "lstm", "gathers, scatters, integers")  # whose tables are small: cppcheck is slow on large ones
RULE = re.compile(r"misra-c2012-(\d+\.\d+)$", re.MULTILINE)


def listed_rules() -> set[str]:
    """The rules in the table of the page."""
    text = (ROOT / "docs" / "c.md").read_text(encoding="utf-8")
    section = text.partition("## MISRA C:2012")[2].partition("\n## ")[0]
    return {rule for row in re.findall(r"^\| ([\d., ]+) \|", section, re.MULTILINE) for rule in row.split(", ")}


def reported_rules(kind: str, folder: Path) -> set[str]:
    """The rules that cppcheck reports for a program."""
    sources = write_sources(sample_program(kind))
    for name, data in sources.files.items():
        (folder / name).write_bytes(data)
    command = [require_tool("cppcheck"), "--addon=misra", "--std=c11", "--enable=style", "--template={id}", "--quiet"]
    done = subprocess.run([*command, *sources.units], cwd=folder, capture_output=True, text=True, check=True)
    return set(RULE.findall(done.stderr))


@pytest.mark.expensive
def test_the_page_lists_all_rules_that_are_reported(tmp_path: Path) -> None:
    reported = {rule for kind in KINDS for rule in reported_rules(kind, tmp_path)}
    assert "12.1" in reported, "the addon has run"
    assert reported <= listed_rules(), sorted(reported - listed_rules())
