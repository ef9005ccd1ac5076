"""Measures the start time of the command line."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 9
EXPLOY = Path(sys.executable).with_name("exploy")


def seconds(*arguments: str) -> float:
    """Median run time of a command's process."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([str(EXPLOY), *arguments], capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Measure and print the results."""
    print(f"exploy --help: {seconds('--help'):.2f} s (limit 0.3); exploy --version: {seconds('--version'):.2f} s")


if __name__ == "__main__":
    main()
