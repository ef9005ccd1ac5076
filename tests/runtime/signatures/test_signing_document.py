"""What docs/signing.md shows works as shown: a key made, a file signed, loaded, changed, by a stranger, unsigned."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.runtime.test_bare_install import robot_python  # noqa: F401
from tests.support.command_line import run
from tests.support.files import robot_file, write

DOCUMENT = Path(__file__).parents[3] / "docs" / "signing.md"
BARE = "The robot lacks the extra"


def blocks(part: str) -> list[tuple[str, str]]:
    """Language and content of the code blocks in a part of the document."""
    return re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL)


def without_what_varies(text: str) -> str:
    """A text without dates and digests, which are others each time."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "DATE", text)
    return re.sub(r"\b([0-9a-f]{16}\b|[0-9a-f]{12}…)", "HEX", text).strip()


def typed(line: str, folder: Path) -> str:
    """What a line prints that is typed into a shell in a folder."""
    program, *arguments = shlex.split(line)
    if program == "rm":
        (folder / arguments[0]).unlink()
        return ""
    assert program == "exploy"
    result = run(*arguments, folder=folder)
    assert result.returncode == (2 if result.stderr else 0), result.stdout + result.stderr
    return result.stdout + result.stderr


def test_every_line_of_the_document_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(robot_file(), tmp_path)
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text(encoding="utf-8")
    before = text.split(f"**{BARE}")[0]
    printed = ""
    scope: dict[str, object] = {}
    kinds = []
    for kind, content in blocks(before):
        kinds.append(kind)
        if kind == "python":
            exec(content, scope)
        elif kind == "console":
            printed = "".join(typed(line, tmp_path) for line in content.splitlines())
        else:
            assert without_what_varies(printed) == without_what_varies(content)
    assert kinds.count("console") == 6 and kinds.count("text") == 6 and kinds.count("python") == 2
    assert "controller" in scope
    assert (os.stat(tmp_path / "alice.key").st_mode & 0o777) == 0o600


@pytest.mark.expensive
def test_on_a_bare_install_trusted_keys_refuse_and_name_the_extra(robot_python: Path, tmp_path: Path) -> None:  # noqa: F811
    rest = DOCUMENT.read_text(encoding="utf-8").split(f"**{BARE}")[1]
    (kind, line), (_, expected) = blocks(rest)[:2]
    assert kind == "python"
    write(robot_file(), tmp_path)
    run("keys", "new", "--out", "alice.key", folder=tmp_path)
    run("sign", "policy.onnx", "--key", "alice.key", folder=tmp_path)
    code = f"from exploy.runtime import Controller\nprint(Controller.load('policy.onnx').selftest())\n{line}"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    arguments = [str(robot_python), "-c", code]
    result = subprocess.run(arguments, capture_output=True, text=True, cwd=tmp_path, env=kept, timeout=60)
    assert result.returncode == 1 and result.stdout.strip() == "12"
    assert result.stderr.strip().splitlines()[-1] == expected.strip()
