"""Of a generated family, no sound environment is accused, and no mutant is green.

`python -m tools.generated_environments --count 300` goes through more of them.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.support.generated import Fault, Spec, checked, evaluated, exported, specs

SOUND, MUTANTS, MANY = 4, 6, 18

pytestmark = [pytest.mark.expensive, pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")]


def some(count: int) -> settings:
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow],
    )


def assert_not_accused(spec: Spec) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert evaluated(spec, Fault.NONE, Path(folder)) == ""
    assert checked(spec, Fault.NONE) == ()


def assert_not_green(spec: Spec) -> None:
    with tempfile.TemporaryDirectory() as folder:
        evaluation = evaluated(spec, spec.fault, Path(folder))
        assert evaluation or checked(spec, spec.fault) or exported(spec, spec.fault, Path(folder))


@some(SOUND)
@given(specs())
def test_no_sound_environment_is_accused(spec: Spec):
    assert_not_accused(spec)


@some(MUTANTS)
@given(specs())
def test_no_mutant_is_green(spec: Spec):
    assert_not_green(spec)


@pytest.mark.expensive
@some(MANY)
@given(specs())
def test_none_of_many_sound_environments_is_accused(spec: Spec):
    assert_not_accused(spec)


@pytest.mark.expensive
@some(MANY)
@given(specs())
def test_none_of_many_mutants_is_green(spec: Spec):
    assert_not_green(spec)
