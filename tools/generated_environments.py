"""Generates environments, each once as it is and once with a fault, and counts what is said about them.

    python -m tools.generated_environments --count 300

A sound environment must be green: no error or warning of the check, no error of the export, and an evaluation that is
True. A mutant must not be. The exit code is 1 if that is not so.
"""

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch
from hypothesis import HealthCheck, Phase, given, settings

from tests.support.generated import Fault, Outcome, Spec, judge, specs


@dataclass
class Counts:
    """What was said, by fault."""

    made: Counter[Fault] = field(default_factory=Counter)
    green: Counter[Fault] = field(default_factory=Counter)
    by_check: Counter[Fault] = field(default_factory=Counter)
    by_export: Counter[Fault] = field(default_factory=Counter)
    by_evaluation: Counter[Fault] = field(default_factory=Counter)

    def add(self, fault: Fault, outcome: Outcome) -> None:
        """Count one environment."""
        self.made[fault] += 1
        self.green[fault] += outcome.is_green
        self.by_check[fault] += bool(outcome.check)
        self.by_export[fault] += bool(outcome.export)
        self.by_evaluation[fault] += bool(outcome.evaluation)

    def table(self) -> str:
        """One line for each fault."""
        lines = [f"{'fault':28}{'made':>6}{'green':>7}{'check':>7}{'export':>8}{'evaluation':>12}"]
        for fault in Fault:
            numbers = f"{self.made[fault]:6}{self.green[fault]:7}{self.by_check[fault]:7}{self.by_export[fault]:8}"
            lines.append(f"{fault:28}{numbers}{self.by_evaluation[fault]:12}")
        return "\n".join(lines)


def is_right(fault: Fault, outcome: Outcome) -> bool:
    """Whether a sound environment is green, or a mutant is not."""
    return outcome.is_green == (fault is Fault.NONE)


def main() -> None:
    """Generate environments, print those that are judged wrongly, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=300)
    count: int = parser.parse_args().count
    torch.set_num_threads(1)
    counts, wrong = Counts(), 0

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(specs())
    def judge_both(spec: Spec) -> None:
        nonlocal wrong
        for fault in (Fault.NONE, spec.fault):
            with tempfile.TemporaryDirectory() as folder:
                outcome = judge(spec, fault, Path(folder))
            counts.add(fault, outcome)
            if not is_right(fault, outcome):
                wrong += 1
                print(f"WRONG VERDICT, fault: {fault}\n{spec}\n{outcome}", flush=True)

    judge_both()
    print(counts.table())
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
