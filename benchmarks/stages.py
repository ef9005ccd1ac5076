"""Measures how the CPU time of a check, a discovery or an export is shared among its stages."""

import contextlib
import functools
import pkgutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

TO_A_RESET = "steps to a reset"

EXPORT: Mapping[str, Sequence[str]] = {
    "capture": ["exploy.driver.environment_source.EnvironmentSource.capture"],
    "lower": ["exploy.backends.onnx.backend.OnnxBackend.lower"],
    "trace": ["exploy.driver.run_export.record_trace"],
    "verify": ["exploy.driver.environment_source.EnvironmentSource.verify"],
}
CHECK: Mapping[str, Sequence[str]] = {
    "capture": ["exploy.diagnosis.check.capture", "exploy.diagnosis.check.with_starts_of_reset"],
    "standing still": ["exploy.diagnosis.check._stand_still"],
    "steps": ["exploy.diagnosis.check.step_and_watch"],
    TO_A_RESET: ["exploy.verify.start_values.Resets._reset", "exploy.verify.start_values.Resets.step_on"],
    "resets": ["exploy.diagnosis.check.watch_resets"],
    "long run": ["exploy.diagnosis.check.watch_long_run"],
    "trials": [
        f"exploy.diagnosis.check.{name}"
        for name in (
            "roles",
            "probe",
            "_found_by",
            "later_findings",
            "written_by_step_findings",
            "unexplained_findings",
        )
    ],
    "lower": ["exploy.diagnosis.check.with_lowering"],
    "verify": ["exploy.diagnosis.lowering.verify_against_program"],
}
DISCOVERY: Mapping[str, Sequence[str]] = {
    "capture": ["exploy.discovery.search.capture"],
    "steps and resets": ["exploy.discovery.search.watch_movement"],
    "standing still": ["exploy.discovery.search.changes_of_pipeline"],
    "influence": ["exploy.discovery.search.Influence"],
    "check": ["exploy.discovery.discover.check_environment"],
}


class StageClock:
    """Adds up the CPU seconds of stages. A stage that runs inside of another one does not count for that one."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = 0.0

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose calls count for a stage."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            self._count()
            self._running.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self._count()
                self._running.pop()

        return run

    def _count(self) -> None:
        now = time.process_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


@contextlib.contextmanager
def timed_stages(stages: Mapping[str, Sequence[str]]) -> Iterator[StageClock]:
    """Time functions for the time of the block.

    Args:
        stages: The functions of each stage, by the names through which they are called.

    Raises:
        AttributeError: If there is no function of a name.
    """
    clock = StageClock()
    with contextlib.ExitStack() as stack:
        for stage, names in stages.items():
            for name in names:
                stack.enter_context(mock.patch(name, clock.timed(stage, pkgutil.resolve_name(name))))
        yield clock
