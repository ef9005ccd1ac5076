"""The benchmarks time functions of the package by name, so a name that is gone must be noticed."""

import pkgutil
import shutil
import sys
import time

import pytest

from benchmarks import loop, stages


@pytest.mark.parametrize(
    "functions", [stages.EXPORT, stages.CHECK, stages.DISCOVERY], ids=["export", "check", "discovery"]
)
def test_the_functions_of_each_stage_exist(functions):
    for names in functions.values():
        assert all(callable(pkgutil.resolve_name(name)) for name in names)


def test_a_stage_inside_of_another_one_counts_for_itself_alone(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 7.0])  # outer begins, inner begins, inner ends, outer ends
    monkeypatch.setattr(time, "process_time", lambda: next(now))
    clock = stages.StageClock()
    inner = clock.timed("inner", lambda: "result")
    assert clock.timed("outer", lambda: inner())() == "result"
    assert clock.seconds == {"outer": 1.0 + 4.0, "inner": 2.0}


def test_functions_are_timed_only_inside_of_the_block():
    with stages.timed_stages({"text": ["textwrap.dedent"]}) as clock:
        assert pkgutil.resolve_name("textwrap.dedent")("  a") == "a"
    counted = dict(clock.seconds)
    pkgutil.resolve_name("textwrap.dedent")("  a")
    assert set(counted) == {"text"}
    assert clock.seconds == counted


@pytest.mark.expensive
def test_the_benchmark_of_a_recorded_loop_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["loop", "--seconds", "0.3", "--segments", "4", "--format", "mcap"])
    loop.main()
    printed = capsys.readouterr().out
    assert "overruns added by recording" in printed and printed.count("300 ticks") == 2


@pytest.mark.expensive
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_the_benchmark_of_programs_in_c_runs(monkeypatch, capsys):
    from benchmarks import c_files, c_programs  # these import TorchRL, which takes long

    assert c_programs.exponent([1, 10, 100, 1000], [5, 5, 50, 500], fixed_cost=4) == pytest.approx(1)
    monkeypatch.setattr(c_programs, "FILES", {"MLP": c_files.FILES["MLP 48-512-256-128-12"]})
    monkeypatch.setattr(c_programs, "FIXED_COST", 0)
    c_programs.main(loads=1, widths=(8, 64))
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("sub-step", "Controller.tick(), MLP", "of reading them"))
