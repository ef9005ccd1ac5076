"""How long the command line takes to start."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 9
EXPLOY = Path(sys.executable).with_name("exploy")


def seconds(*arguments: str) -> float:
    """Median time of a command, from the start of its process to its end."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([str(EXPLOY), *arguments], capture_output=True, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    print(f"exploy --help: {seconds('--help'):.2f} s (below 0.3); exploy --version: {seconds('--version'):.2f} s")


if __name__ == "__main__":
    main()
