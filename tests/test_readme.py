"""What the README shows works as shown."""

import re
import runpy
from pathlib import Path
from typing import Any

import torch

from exploy.exporter.core.components import Input, Output
from exploy.exporter.core.context_manager import ContextManager

ROOT = Path(__file__).parents[1]


def bare_pendulum() -> dict[str, Any]:
    """The quickstart's environment with nothing registered, and an actor."""
    env = runpy.run_path(str(ROOT / "examples" / "quickstart.py"))["Pendulum"]()
    env._context_manager = ContextManager()
    torch.manual_seed(0)
    actor = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ELU(), torch.nn.Linear(32, 1))
    return {"env": env, "actor": actor}


def test_the_code_of_the_readme_runs(tmp_path: Path, monkeypatch, capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    export, _, run = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    scope = bare_pendulum()
    monkeypatch.chdir(tmp_path)
    exec(export, scope)
    assert scope["ok"] is True
    assert (tmp_path / "pendulum" / "policy.onnx").is_file()
    exec(run, scope)
    assert "200 ticks replayed: agrees" in capsys.readouterr().out


def test_the_diagnosis_of_the_readme_is_what_is_printed(monkeypatch, capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, code, _ = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    printed = re.search(r"```text\n(This environment.*?)```", readme, re.DOTALL)
    assert printed is not None
    scope = bare_pendulum()
    env = scope["env"]
    env.context_manager().add_components([Input("angle", lambda: env.angle), Output("torque", lambda: env.torque)])
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "118")
    exec(code, scope)
    assert capsys.readouterr().out == printed[1]


def test_links_of_the_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
