"""Prints docs/operators.md: what a file computes for torch operators at corner values.

python -m tools.operators > docs/operators.md
"""

import re
import warnings
from collections import Counter

from tests.support.operator_cases import cases
from tests.support.operator_runs import REFUSED, RIGHT, Outcome, run_all

_PLACE = re.compile(r"^\S+\.py:\d+ \(in \S+\): ")

_INTRODUCTION = """# Operators

Each row is a call of torch operators as users write it, made in torch and by onnxruntime from a file. The arguments are
corner values where that makes sense: both zeros, denormals, infinities, NaN, ±2**31, ±2**63, huge ratios, empty
tensors, 0-d tensors, broadcasting. `python -m tools.operators` makes this page; `make test-expensive` makes the same
calls.

- *right*: the file gives what torch gives. Floats may differ by rounding.
- *rewritten*: likewise, but not with torch's own ONNX form, which is missing or wrong at some of these values.
- *refused*: the export says so, with the line.

Numbers beyond 1e37 are not tried: products of them overflow in torch, and need not in the file. Where torch computes
one element alone otherwise than many at once, either value is right. Numbers of the code, such as `0.1`, keep all their
digits where the code computes in float64. `x + 1e-8` is kept, too: torch's exporter drops it.
"""


def main() -> None:
    """Run all calls and print the page."""
    warnings.simplefilter("ignore")
    everything = cases()
    outcomes = run_all(everything, one_by_one=True)
    print(_INTRODUCTION)
    counts = Counter(_verdict(outcome) for outcome in outcomes)
    print(", ".join(f"{count} calls {verdict}" for verdict, count in counts.items()) + ".")
    for group in dict.fromkeys(case.group for case in everything):
        print(f"\n## {group.capitalize()}\n\n| call | in the file |\n|---|---|")
        for case, outcome in zip(everything, outcomes, strict=True):
            if case.group == group:
                print(f"| {case.name.replace('|', chr(92) + '|')} | {_shown(outcome)} |")


def _verdict(outcome: Outcome) -> str:
    return "rewritten" if outcome.verdict == RIGHT and outcome.is_rewritten else outcome.verdict


def _shown(outcome: Outcome) -> str:
    if outcome.verdict != REFUSED:
        return _verdict(outcome) if outcome.verdict == RIGHT else f"**wrong**: {outcome.detail}"
    message = _PLACE.sub("", outcome.detail).splitlines()[0]
    return "refused: " + re.sub(r"([][()|%<>])", r"\\\1", message)


if __name__ == "__main__":
    main()
