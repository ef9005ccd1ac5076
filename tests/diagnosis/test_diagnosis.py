"""A diagnosis prints as a table with lines to paste, and can be asked in code."""

import pytest

from exploy.diagnosis.diagnosis import Diagnosis
from exploy.diagnosis.finding import Finding, FindingKind, Severity

LINE = 'Input(name="imu", get_from_env_cb=lambda: env.robot.some_subsystem.with_a_long_name.and_another_one._imu)'
ERROR = Finding.of(FindingKind.UNREGISTERED_INPUT, "env.imu", "changed", "/there/robot.py:12 (in observe)", LINE)
WARNING = Finding.of(FindingKind.DETACHED, "pos", "fresh", suggestion="# " + "advice " * 40)
INFO = Finding.of(FindingKind.FROZEN, "env.gains['a']", "read", suggestion="not shown")


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")


def test_the_worst_comes_first():
    assert Diagnosis((INFO, WARNING, ERROR), 20).findings == (ERROR, WARNING, INFO)


@pytest.mark.parametrize(("findings", "ok"), [((), True), ((INFO,), True), ((INFO, WARNING), False), ((ERROR,), False)])
def test_ok_means_nothing_above_info(findings, ok):
    assert Diagnosis(findings, 1).ok is ok


def test_findings_can_be_asked_by_severity():
    diagnosis = Diagnosis((INFO, WARNING, ERROR), 20)
    assert diagnosis.errors == (ERROR,) == diagnosis.of(Severity.ERROR)
    assert diagnosis.of(Severity.INFO) == (INFO,)


def test_suggestions_are_each_given_once_and_not_for_what_needs_nothing():
    assert Diagnosis((ERROR, ERROR, INFO), 1).suggestions == (LINE,)


def test_it_prints_a_verdict_a_table_and_the_lines():
    text = str(Diagnosis((INFO, WARNING, ERROR), 20))
    assert text.startswith("The exported file would be wrong: 1 error, 1 warning, 1 info (20 policy steps).")
    for part in ("unregistered input", "env.imu", "detached", "env.gains['a']", "robot.py:12"):
        assert part in text
    assert "not shown" not in text


def test_code_is_printed_in_one_line_however_narrow_the_terminal():
    assert f"  {LINE}" in str(Diagnosis((ERROR,), 1)).splitlines()


def test_comments_are_folded():
    lines = str(Diagnosis((WARNING,), 1)).splitlines()
    comments = [line for line in lines if line.startswith("  # ")]
    assert len(comments) > 2 and all(len(line) <= 90 for line in comments)


def test_nothing_found_is_one_line():
    assert str(Diagnosis((), 1)) == "No errors or warnings, ready to export (1 policy step)."


def test_warnings_alone_do_not_say_that_all_is_lost():
    text = "Check these findings before exporting: 1 warning (2 policy steps)."
    assert str(Diagnosis((WARNING,), 2)).startswith(text)


def test_square_brackets_are_no_markup():
    assert "env.gains['a']" in str(Diagnosis((INFO,), 1))
