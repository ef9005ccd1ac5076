"""`python -m tests.fuzz N`: runs N damaged files, contracts, graphs and logs, and archives if asked."""

import argparse
import sys
import time

from tests.fuzz.cases import CASES
from tests.fuzz.workers import fuzz


def main() -> int:
    """Run, print the counts and the failures; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("cases", type=int, nargs="?", default=1000, help="number of files, contracts, graphs and logs")
    parser.add_argument("--archives", type=int, help="number of .pt2 archives, for torch; a hundredth by default")
    parser.add_argument("--seed", type=int, default=0, help="first seed; with 1 case, the one to repeat")
    parser.add_argument("--only", choices=list(CASES), help="only this kind")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    options = parser.parse_args()
    started = time.monotonic()
    archives = max(1, options.cases // 100) if options.archives is None else options.archives
    counts = {options.only: options.cases} if options.only else shares(options.cases) | {"archive": archives}
    result = fuzz(counts, first=options.seed, jobs=options.jobs, watch=lambda text: print(text, flush=True))
    print(f"\n{result}\n{time.monotonic() - started:.0f} s")
    return 1 if result.failures else 0


def shares(cases: int) -> dict[str, int]:
    """The cases of each kind."""
    parts = {"sealed": cases // 4, "contract": cases // 4, "log": cases // 5}
    return parts | {"graph": cases - sum(parts.values())}


if __name__ == "__main__":
    sys.exit(main())
