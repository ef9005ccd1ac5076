"""`exploy bench`: measures the duration of ticks on this machine."""

import sys
from pathlib import Path

import numpy as np
from rich.table import Table

from exploy.cli.console import output, print_json
from exploy.runtime.latency import measure

_PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
_BARS = 40
_SHARE_OF_THE_PERIOD = 0.5  # that a tick may use; the rest is left for other work


def run(path: Path, ticks: int, hz: float | None, threads: int, as_json: bool, allow_code: bool) -> None:
    """Measure and print the result.

    Raises:
        ContractError: If the file cannot be run.
        RuntimeInputError: If an option is invalid.
    """
    found = measure(path, ticks, hz, threads, allow_code=allow_code)
    paths = {"policy step": found.policy, "sub-step": found.sub_step}
    paths = {name: times for name, times in paths.items() if times.size}
    if as_json:
        print_json({name.replace(" ", "_").replace("-", "_"): summary(times) for name, times in paths.items()})
        return
    console = output()
    table = Table("µs", "ticks", *_PERCENTILES, "worst")
    for name, times in paths.items():
        table.add_row(name, str(times.size), *(f"{value:.1f}" for value in list(summary(times).values())[1:]))
    console.print(table)
    for name, times in paths.items():
        console.print(f"\n{name}", highlight=False)
        for line in histogram(times):
            console.print(line, highlight=False)
    slowest = max(float(np.percentile(times, 99.9)) for times in paths.values())
    console.print(
        "\nIf a tick may use half of the period, 99.9 % of ticks are fast enough for "
        f"{rate_for(slowest):,.0f} Hz on this machine{'' if hz else '; ticks at a fixed rate are slower, try --hz'}.",
        highlight=False,
    )


def summary(times: np.ndarray) -> dict[str, float]:
    """Number of ticks, and percentiles and maximum of their times in microseconds."""
    shares = {name: round(float(np.percentile(times, share)), 3) for name, share in _PERCENTILES.items()}
    return {"ticks": int(times.size), **shares, "worst": round(float(times.max()), 3)}


def rate_for(microseconds: float) -> float:
    """The rate at which a tick with this duration uses half of the period."""
    return _SHARE_OF_THE_PERIOD / (microseconds * 1e-6)


def histogram(times: np.ndarray, rows: int = 10) -> list[str]:
    """Lines of a histogram, from the fastest tick to the 99.9th percentile. The last bar has all slower ticks."""
    edges = np.linspace(times.min(), max(np.percentile(times, 99.9), times.min() + 0.1), rows)
    counts, _ = np.histogram(times, bins=[*edges, np.inf])
    bar = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    width = np.ceil(_BARS * counts / counts.max()).astype(int)
    lines = [f"{edges[row]:9.1f} … {bar * width[row]} {counts[row]}" for row in range(rows - 1)]
    return [*lines, f"{edges[-1]:9.1f} +  {bar * width[-1]} {counts[-1]}"]
