"""Provenance of a file: versions, date, source, and the commit of the environment code."""

import datetime
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exploy
from exploy.contract import GitCommit, Provenance
from exploy.description.provenance import provenance_of
from exploy.runtime.model_file import ModelFile
from tests.support.environments import make_actor
from tests.support.files import exported
from tests.support.robot import Robot


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def environment_in(folder: Path, name: str) -> object:
    """An object of a class that is defined in a file of the folder."""
    path = folder / f"{name}.py"
    path.write_text("class Environment: pass\n")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    instance: object = module.Environment()
    return instance


def made(env: object) -> Provenance:
    return provenance_of(env, {}, 20, 11)


def test_the_commit_is_that_of_the_environments_code(tmp_path: Path) -> None:
    env = environment_in(tmp_path, "tracked_environment")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert made(env).git == GitCommit(commit, changed=False)
    (tmp_path / "untracked.txt").write_text("nothing of ours")
    assert made(env).git == GitCommit(commit, changed=False)
    (tmp_path / "tracked_environment.py").write_text("class Environment: size = 2\n")
    assert made(env).git == GitCommit(commit, changed=True)


def test_code_that_no_repository_tracks_has_no_commit(tmp_path: Path) -> None:
    outside = environment_in(tmp_path, "outside_environment")
    assert made(outside).git is None
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    assert made(outside).git is None  # in the folder of a repository, and not in the repository
    assert made(3).git is None


def test_a_name_is_no_pattern_and_hooks_do_not_matter(tmp_path: Path, monkeypatch: Any) -> None:
    environment_in(tmp_path, "env1")
    odd = environment_in(tmp_path, "env[1]")
    git(tmp_path, "init")
    git(tmp_path, "add", "env1.py")
    git(tmp_path, "commit", "-m", "first")
    assert made(odd).git is None
    monkeypatch.setenv("GIT_DIR", ".git")
    (tmp_path / "inner").mkdir()
    inner = environment_in(tmp_path / "inner", "inner_environment")
    monkeypatch.delenv("GIT_DIR")
    git(tmp_path, "add", "inner")
    git(tmp_path, "commit", "-m", "second")
    monkeypatch.setenv("GIT_DIR", ".git")
    assert made(inner).git is not None


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: Any) -> None:
    env = environment_in(tmp_path, "gitless_environment")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert made(env).git is None


def test_the_date_is_now_or_what_the_build_says(monkeypatch: Any) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    date = made(None).date
    assert date is not None and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", date)
    moment = datetime.datetime.fromisoformat(date)
    assert abs((datetime.datetime.now(datetime.UTC) - moment).total_seconds()) < 60
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert made(None).date == "1970-01-02T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    assert made(None).date != "1970-01-02T00:00:00Z"


def test_a_file_has_it_all() -> None:
    source = {"wandb": "team/project/run", "iteration": 1500}
    data = exported(Robot(), make_actor(13, 3), model_source=source, opset_version=18, ir_version=9)
    provenance = ModelFile.parse(data).contract.provenance
    assert provenance.model_source == source
    assert (provenance.opset, provenance.ir_version) == (18, 9)
    assert provenance.versions["exploy"] == exploy.__version__
    assert {"torch", "onnx", "onnxruntime", "numpy", "python"} <= set(provenance.versions)


@pytest.fixture(autouse=True)
def _no_repository_around(monkeypatch: Any, tmp_path: Path) -> None:
    """Ignore git repositories above the test folder, and the git settings of the user."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
