"""What docs/c.md shows works as shown: an archive made, unpacked, compiled with a loop of its own, and run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, run

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
DOCUMENT = ROOT / "docs" / "c.md"


def without_what_varies(text: str) -> str:
    """A text without sizes, times, and what the compiler is."""
    text = re.sub(r"\d+(\.\d+)? (KiB|s)\b", "NUMBER", text)
    return re.sub(r"compiled by \S+ [\d.]+( for x86-64-v\d)?", "COMPILED", text).strip()


def typed(line: str, folder: Path) -> str:
    """What a line prints that is typed into a shell in a folder."""
    program, _, rest = line.partition(" ")
    if program == "exploy":
        result = run(*rest.split(), folder=folder)
        assert result.returncode == 0, result.stderr
        return result.stdout
    line = f"{sys.executable} {rest}" if program == "python3" else line
    done = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_line_of_the_document_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("export", f"{ROOT / 'examples' / 'quickstart.py'}:make", "--no-strict", "-o", tmp_path / "policy.onnx")
    printed = ""
    kinds = []
    for kind, content in re.findall(r"```(\w+)\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL):
        kinds.append(kind)
        if kind == "c":
            (tmp_path / "main.c").write_text(content)
        elif kind == "python":
            exec(content, {})
        elif kind == "console":
            printed = "".join(typed(line, tmp_path) for line in content.splitlines())
        else:
            assert without_what_varies(printed) == without_what_varies(content)
    assert (kinds.count("console"), kinds.count("text"), kinds.count("c"), kinds.count("python")) == (3, 2, 1, 1)


def test_the_tables_of_the_document_name_all_files_and_functions(tmp_path: Path) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    run("export", f"{ROOT / 'examples' / 'quickstart.py'}:make", "--no-strict", "-o", tmp_path / "policy.onnx")
    run("compile", tmp_path / "policy.onnx", "-o", tmp_path / "policy")
    for path in (tmp_path / "policy").iterdir():
        assert f"`{path.name}`" in text or path.suffix in (".so", ".dylib")
    functions = re.findall(r"^\w.*?\b(policy_\w+)\(", (tmp_path / "policy" / "policy.h").read_text(), re.MULTILINE)
    loaders = {name for name in functions if name.endswith(("_at", "_bytes"))}
    assert len(functions) > len(loaders) and all(f"`{name}(" in text for name in set(functions) - loaders)
