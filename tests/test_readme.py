"""What the README shows works as shown."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rsl_rl.modules import EmpiricalNormalization
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.exporter.core.components import Input, Output
from exploy.runtime import Controller
from tests.support.command_line import run
from tests.support.gbc import REF_WIDTH, WIDTH, ActorCritic, Embedding, Transformer

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def quickstart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let code import the example, and forget what it has imported."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    yield
    for name in ("quickstart", "swinging"):
        sys.modules.pop(name, None)


def bare_pendulum() -> dict[str, Any]:
    """The quickstart's environment with nothing registered, and its actor."""
    from quickstart import make_bare  # type: ignore[import-not-found]

    env, actor = make_bare()
    return {"env": env, "actor": actor}


def normalized_pendulum() -> dict[str, Any]:
    """An algorithm of Stable-Baselines3 and its VecNormalize."""
    vn = VecNormalize(make_vec_env("Pendulum-v1", seed=0))
    return {"vn": vn, "model": PPO("MlpPolicy", vn, device="cpu", seed=0)}


def test_the_code_of_the_readme_runs(tmp_path: Path, monkeypatch, capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    export, own, trainer, _, step = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    scope: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    exec(export, scope)
    assert scope["result"].diagnosis.ok and scope["result"].verification.environment
    printed = capsys.readouterr().out
    assert "nothing is left open" in printed
    assert "comparisons with the captured program" in printed and "torque" in printed
    assert (tmp_path / "pendulum" / "policy.onnx").is_file()
    exec(own, scope)
    assert names_registered_by(scope["register"]) == names(scope["env"])
    exec(step, scope)
    assert "200 ticks replayed: agrees" in capsys.readouterr().out
    exec(trainer, scope | normalized_pendulum())
    assert Controller.load("policy.onnx").contract.hz == 20


def names(env: ExportableEnvironment) -> set[str]:
    manager = env.context_manager()
    return {item.name for item in (*manager.get_input_components(), *manager.get_output_components())}


def names_registered_by(register: Callable[..., None]) -> set[str]:
    scope = bare_pendulum()
    register(scope["env"], scope["actor"])
    return names(scope["env"])


def test_the_diagnosis_of_the_readme_is_what_is_printed(monkeypatch, capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, _, code, _ = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    printed = re.search(r"```text\n(The exported file.*?)```", readme, re.DOTALL)
    assert printed is not None
    scope = bare_pendulum()
    env = scope["env"]
    env.context_manager().add_components([Input("angle", lambda: env.angle), Output("torque", lambda: env.torque)])
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "118")
    exec(code, scope)
    assert capsys.readouterr().out == printed[1]


@pytest.mark.expensive
def test_the_code_about_substitutes_runs(tmp_path: Path, monkeypatch, capsys):
    text = (ROOT / "docs" / "substitutes.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], {"__name__": "example"})
    assert "original='exploy.demo.dynamics.roll_history', replacement='example.shifted'" in capsys.readouterr().out


def test_the_code_about_trainers_runs(tmp_path: Path, monkeypatch):
    text = (ROOT / "docs" / "trainers.md").read_text(encoding="utf-8")
    of_sb3, of_gbc = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    scope = normalized_pendulum()
    scope["model"].save("model.zip")
    scope["vn"].save("vn.pkl")
    exec(of_sb3, scope)
    assert Controller.load("policy.onnx").selftest() == 3
    torch.manual_seed(0)
    actor_critic = ActorCritic(Transformer(Embedding(WIDTH, 16, 4), Embedding(REF_WIDTH, 16, 3), 16))
    normalizers = {"normalizer": EmpiricalNormalization(WIDTH), "ref_normalizer": EmpiricalNormalization(REF_WIDTH)}
    exec(of_gbc, {"actor_critic": actor_critic, **normalizers})
    assert list(Controller.load("exported/policy.onnx").inputs) == ["obs", "ref_obs", "ref_mask"]


def test_the_code_about_discovery_runs_and_prints_what_is_shown(tmp_path: Path, monkeypatch):
    text = (ROOT / "docs" / "discovery.md").read_text(encoding="utf-8")
    environment, answers, registration = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    [(command, table)] = re.findall(r"```console\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    (tmp_path / "swinging.py").write_text(environment, encoding="utf-8")
    printed = run(*command.split()[1:], folder=tmp_path)
    assert printed.returncode == 1, printed.stderr
    assert printed.stdout == f"{table}\n{registration}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    exec(answers, {})
    assert set(Controller.load("swinging.onnx").inputs) == {"angle", "velocity", "goal"}


def test_links_of_the_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
