"""The provenance of a file: versions, date, and git commit of the environment code."""

import contextlib
import datetime
import inspect
import os
import platform
import subprocess
from importlib import metadata as package_metadata
from pathlib import Path
from typing import Any

from exploy.contract import GitCommit, Provenance
from exploy.version import __version__

_VERSIONED = ("torch", "onnx", "onnx-ir", "onnxscript", "onnxruntime", "numpy")
_SECONDS_FOR_GIT = 5.0
_ANOTHER_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")  # set while hooks run


def provenance_of(
    env: object | None,
    model_source: dict[str, Any],
    opset: int | None,
    ir_version: int | None,
    libraries: tuple[str, ...] = (),
) -> Provenance:
    """The provenance of a file.

    If SOURCE_DATE_EPOCH is set, the date is taken from it, so that two exports write the same bytes. `git` is None if
    no commit is found.
    """
    return Provenance(
        versions=_versions((*_VERSIONED, *libraries)),
        date=_date(),
        model_source=model_source,
        opset=opset,
        ir_version=ir_version,
        git=None if env is None else _commit_of(type(env)),
    )


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    versions = {"exploy": __version__, "python": platform.python_version()}
    for name in packages:
        with contextlib.suppress(package_metadata.PackageNotFoundError):
            versions[name] = package_metadata.version(name)
    return versions


def _date() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.datetime.now(datetime.UTC)
    with contextlib.suppress(ValueError, OverflowError, OSError):
        moment = datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _commit_of(cls: type) -> GitCommit | None:
    """The commit of the git repository that tracks the source file of a class; None if not found."""
    try:
        path = Path(inspect.getfile(cls)).resolve()
        _git(path.parent, "ls-files", "--error-unmatch", path.name)
        commit = _git(path.parent, "rev-parse", "HEAD")
        changed = bool(_git(path.parent, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, TypeError, ValueError, subprocess.SubprocessError):
        return None
    return GitCommit(commit, changed)


def _git(folder: Path, *arguments: str) -> str:
    result = subprocess.run(
        ["git", "--no-optional-locks", "--literal-pathspecs", *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in _ANOTHER_REPOSITORY},
        check=True,
        capture_output=True,
        text=True,
        timeout=_SECONDS_FOR_GIT,
    )
    return result.stdout.strip()
