"""What the README shows works as shown."""

import re
import runpy
from pathlib import Path

import torch

from exploy.exporter.core.context_manager import ContextManager

ROOT = Path(__file__).parents[1]


def test_the_code_of_the_readme_runs(tmp_path: Path, monkeypatch):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    env = runpy.run_path(str(ROOT / "examples" / "quickstart.py"))["Pendulum"]()
    env._context_manager = ContextManager()
    torch.manual_seed(0)
    actor = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ELU(), torch.nn.Linear(32, 1))
    monkeypatch.chdir(tmp_path)
    scope = {"env": env, "actor": actor}
    exec(code, scope)
    assert scope["ok"] is True
    assert (tmp_path / "pendulum" / "policy.onnx").is_file()


def test_links_of_the_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
