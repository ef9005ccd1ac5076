"""Measures `exploy.discover()` against a check of what it has found.

Rounds of all candidates are interleaved, after one warm-up round each. Times are CPU times of one thread. A discovery
ends with such a check, but for the conversion to ONNX. A table shows the share of each stage.
"""

import functools
import logging
import warnings
from dataclasses import dataclass, field

import torch

import exploy
from benchmarks import stages
from benchmarks.export_time import Candidates, measure, print_stages, seconds_of_stages
from benchmarks.humanoid_environment import make_bare_humanoid
from benchmarks.wide_environment import make_wide
from exploy.environment.exportable_environment import ExportableEnvironment

ROUNDS = 3
NUM_TENSORS, NUM_OBSERVED, SIZE = 1000, 50, 16
LARGE_SIZES = (10**3, 10**4, 10**5, 10**6)
G1, WIDE = "G1", f"{NUM_TENSORS} tensors, {NUM_OBSERVED} observed"


@dataclass(frozen=True)
class Bare:
    """An environment without registrations, with its actor, and what a user knows of them."""

    env: ExportableEnvironment
    actor: torch.nn.Module
    decisions: dict[str, str] = field(default_factory=dict)

    def discover(self) -> exploy.Discovery:
        """Find what to register."""
        outputs = {"torques": "env.torques"}
        return exploy.discover(self.env, self.actor, outputs=outputs, decisions=self.decisions)

    def check(self, discovery: exploy.Discovery) -> None:
        """Register what was found, check it, and take it back."""
        with self.env.context_manager().registrations_undone():
            discovery.register(self.env, self.actor)
            diagnosis = exploy.check_environment(self.env, self.actor)
        assert diagnosis.ok, diagnosis


def environments() -> dict[str, Bare]:
    """The environments to measure."""
    large = {f"1 tensor of {size:,}, 4 observed": make_wide([size], 1, spread=True) for size in LARGE_SIZES}
    return {
        G1: Bare(*make_bare_humanoid(), {"env.gravity": "input", "env.command": "input"}),
        WIDE: Bare(*make_wide([SIZE] * NUM_TENSORS, NUM_OBSERVED)),
        **{name: Bare(*made) for name, made in large.items()},
    }


def main() -> None:
    """Measure and print the tables."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    measured = environments()
    candidates: Candidates = {}
    for name, bare in measured.items():
        discovery = bare.discover()
        assert discovery.ok, discovery
        candidates[f"discover {name}"] = bare.discover
        candidates[f"check {name}"] = functools.partial(bare.check, discovery)
    medians = measure(candidates, ROUNDS)
    print(f"{'':32} {'discover':>10} {'check':>10} {'ratio':>7}   (CPU time, median of {ROUNDS} rounds)")
    for name in measured:
        ours, check = medians[f"discover {name}"], medians[f"check {name}"]
        print(f"{name:32} {ours:8.2f} s {check:8.2f} s {ours / check:7.2f}")
    shown = {"G1": G1, f"{NUM_TENSORS} tensors": WIDE, f"1 of {LARGE_SIZES[-1]:,}": list(measured)[-1]}
    columns = {title: seconds_of_stages(stages.DISCOVERY, measured[name].discover) for title, name in shown.items()}
    print_stages("stages of a discovery", columns)


if __name__ == "__main__":
    main()
