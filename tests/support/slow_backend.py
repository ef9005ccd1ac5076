"""Lets steps of a controller take time, on a clock that the test moves."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from exploy.contract import Contract
from exploy.runtime.backends import REGISTERED, register
from exploy.runtime.execution_backend import ExecutionBackend
from exploy.runtime.onnx.steps import open_steps
from exploy.runtime.step_runner import Arrays, StepRunner


@dataclass(frozen=True)
class _WaitingStep:
    path: StepRunner
    wait: Callable[[], None]

    @property
    def inputs(self) -> frozenset[str]:
        return self.path.inputs

    @property
    def outputs(self) -> frozenset[str]:
        return self.path.outputs

    def bind(self, reads: Arrays, writes: Arrays) -> Any:
        return self.path.bind(reads, writes)

    def run(self, binding: Any) -> None:
        self.wait()
        self.path.run(binding)


@contextlib.contextmanager
def steps_that_wait(wait: Callable[[], None]) -> Iterator[None]:
    """Call a function in every step of the controllers that are loaded meanwhile."""

    class Waiting(ExecutionBackend):
        name = "onnx"

        def open_steps(self, data: bytes, contract: Contract, **options: Any) -> tuple[StepRunner, StepRunner]:
            first, second = open_steps(data, contract, **options)
            return _WaitingStep(first, wait), _WaitingStep(second, wait)

    register(Waiting)
    try:
        yield
    finally:
        del REGISTERED[Waiting.name]
