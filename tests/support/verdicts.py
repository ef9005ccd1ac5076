"""The verdicts of evaluation and check on a small environment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exploy.exporter.core.evaluator import evaluate
from tests.support.checking import check
from tests.support.environments import export, make_actor
from tests.support.legs import Unhooked


def verdict(env: Unhooked, folder: Path, capsys: Any) -> str:
    """The first word of the report of an evaluation."""
    session = export(env, make_actor(_width(env)), folder, initial_memory="reset")
    capsys.readouterr()
    evaluate(env, env.context_manager(), session, 30, pause_on_failure=False)
    word, _, _ = capsys.readouterr().out.partition(":")
    return word


def errors(env: Unhooked) -> list[str]:
    return [str(item) for item in check(env, make_actor(_width(env))).errors]


def cases(cheap: int, *kinds: Callable[..., Unhooked]) -> pytest.MarkDecorator:
    """The first kinds, and the others among the expensive tests."""
    marks = [() if number < cheap else pytest.mark.expensive for number in range(len(kinds))]
    return pytest.mark.parametrize(
        "kind", [pytest.param(kind, marks=mark) for kind, mark in zip(kinds, marks, strict=True)]
    )


def _width(env: Unhooked) -> int:
    return env.empty_actor_observations().shape[-1]
