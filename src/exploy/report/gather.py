"""Collects the content of a report: compares a file against its environment, or against its golden trace."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from exploy.comparison import absolute_error, difference
from exploy.contract import STEP_COUNT, Contract, PortKind
from exploy.errors import ContractError
from exploy.report.content import Content, InputHistory, OutputHistory, output_history
from exploy.runtime.controller import Controller
from exploy.runtime.latency import measure
from exploy.runtime.model_file import ModelFile
from exploy.runtime.selftest import fitting_arrays, run_ticks
from exploy.verify.tally import Comparison, Tally

if TYPE_CHECKING:
    import torch

    from exploy.environment.exportable_environment import ExportableEnvironment

_LATENCY_TICKS = 8000
_TOLERANCE = 1e-5

Compared = list[tuple[int, np.ndarray, np.ndarray]]


def from_trace(path: Path) -> Content:
    """Collect the content of a report without the environment.

    Raises:
        ContractError: If it is not an exported file, or has no golden trace.
    """
    file = ModelFile.load(path)
    trace = file.contract.trace
    if trace is None:
        raise ContractError(f"{path} has no golden trace. Also pass the environment as module:factory.")
    engine = Controller(file).new_engine()
    inputs, expected = fitting_arrays(trace, engine)
    seen: dict[str, Compared] = {name: [] for name in expected}
    for tick in run_ticks(engine, inputs, trace.ticks):
        for name, values in expected.items():
            seen[name].append((tick, values[tick], engine.outputs[name].copy()))

    def agrees(want: np.ndarray, got: np.ndarray) -> bool:
        return difference(want, got, trace.tolerance, trace.tolerance, by_largest=True) is None

    return _content(
        path,
        file,
        reference="the torch program that it was exported from, on the trace in the file",
        steps=-(-trace.ticks // file.contract.decimation),
        tolerance=trace.tolerance,
        ticks=list(range(trace.ticks)),
        inputs={name: list(values) for name, values in inputs.items()},
        not_compared=_left_out(file.contract, set(expected)),
        missing=_left_out(file.contract, set(expected)),
        outputs=[_judged(name, file.contract, compared, agrees) for name, compared in seen.items()],
    )


def from_environment(
    path: Path,
    env: "ExportableEnvironment",
    actor: "torch.nn.Module",
    steps: int,
    after_step: Callable[[int], None] = lambda step: None,
    *,
    atol: float = _TOLERANCE,
    rtol: float = _TOLERANCE,
    allow_uncompared: Collection[str] = (),
) -> Content:
    """Step a file side by side with its environment, then check the environment.

    Raises:
        ContractError: If it is not an exported file.
        FileFormatError: If it does not belong to the environment.
    """
    from exploy.diagnosis.check import check_environment
    from exploy.environment.actor import make_exportable_actor
    from exploy.live.evaluation_mode import evaluation_mode
    from exploy.verify.closed_loop import ClosedLoop, RunLength
    from exploy.verify.session_wrapper import SessionWrapper

    file = ModelFile.load(path)
    exportable = make_exportable_actor(actor)
    wrapper = SessionWrapper(path.parent, path.name, actor=exportable, optimize=False)
    recorded = _Recorded(file.contract)

    seen: dict[str, Compared] = {}

    def keep(comparison: Comparison) -> None:
        tick = comparison.step * file.contract.decimation + comparison.sub_step
        seen.setdefault(comparison.name, []).append((tick, comparison.expected.copy(), comparison.got.copy()))

    tally = Tally(atol, rtol, keep, allow_uncompared=allow_uncompared)
    loop = ClosedLoop(
        env,
        env.context_manager(),
        wrapper,
        exportable,
        tally,
        reseed_every=0,
        watch=lambda step: None,
        on_run=recorded.keep,
    )
    with evaluation_mode([exportable, *env.context_manager().modules]):
        loop.run(RunLength(steps), after_step)
    return _content(
        path,
        file,
        reference="the environment",
        steps=steps,
        tolerance=atol,
        ticks=recorded.ticks,
        inputs=recorded.inputs,
        outputs=[
            _history(name, file.contract, compared, tally.outputs[name].first is None, tally.outputs[name].rounding)
            for name, compared in seen.items()
        ],
        not_compared={name: why for name, why in tally.not_compared.items() if name not in seen},
        missing=tally.missing,
        mismatches={name: str(item.first) for name, item in tally.outputs.items() if item.first is not None},
        diagnosis=check_environment(env, actor, initial_memory=_stored_starts(file.contract)),
    )


def _stored_starts(contract: Contract) -> dict[str, Any]:
    """The start values in the file; the evaluation has compared them with those after resets."""
    return {memory.name: memory.initial_value() for memory in contract.memories if not memory.carried}


class _Recorded:
    """Keeps the tick and the inputs of every run of a file."""

    def __init__(self, contract: Contract):
        self._contract = contract
        self._policy_steps = 0
        self.ticks: list[int] = []
        self.inputs: dict[str, list[np.ndarray]] = {}

    def keep(self, step_count: int, values: Mapping[str, np.ndarray]) -> None:
        """Keep what goes into a run."""
        self._policy_steps += step_count == 0
        self.ticks.append((self._policy_steps - 1) * self._contract.decimation + step_count)
        for port in self._contract.inputs:
            if port.name in values:
                self.inputs.setdefault(port.name, []).append(np.array(values[port.name]))


def _left_out(contract: Contract, compared: set[str]) -> dict[str, str]:
    """Outputs that the trace does not compare, with the reason."""
    return {
        port.name: "depends on random numbers" if port.name in contract.random_outputs else "not in the trace"
        for port in contract.outputs
        if port.name not in compared and port.kind != PortKind.MEMORY
    }


def _content(
    path: Path, file: ModelFile, *, ticks: list[int], inputs: dict[str, list[np.ndarray]], **rest: Any
) -> Content:
    latencies = measure(path, _LATENCY_TICKS)
    memories = {memory.input for memory in file.contract.memories}
    shown = {name: values for name, values in inputs.items() if name not in memories and name != STEP_COUNT}
    return Content(
        path,
        file,
        inputs=[
            InputHistory(name, _elements(name, file.contract, values[0]), np.array(ticks), _flat(values))
            for name, values in shown.items()
            if values[0].size
        ],
        policy_latency=latencies.policy,
        sub_step_latency=latencies.sub_step,
        **rest,
    )


def _judged(
    name: str, contract: Contract, compared: Compared, agrees: Callable[[np.ndarray, np.ndarray], bool]
) -> OutputHistory:
    return _history(name, contract, compared, all(agrees(expected, got) for _, expected, got in compared))


def _history(name: str, contract: Contract, compared: Compared, agrees: bool, rounding: float = 0.0) -> OutputHistory:
    errors = [float(absolute_error(expected, got).max(initial=0.0)) for _, expected, got in compared]
    return output_history(name, _elements(name, contract, compared[0][1]), compared, errors, agrees, rounding)


def _flat(values: list[np.ndarray]) -> np.ndarray:
    return np.stack([np.asarray(value, dtype=np.float64).reshape(-1) for value in values])


def _elements(name: str, contract: Contract, value: np.ndarray) -> tuple[str, ...]:
    """A name for each element: from the port, from the observation names, or its position."""
    port = next((item for item in (*contract.inputs, *contract.outputs) if item.name == name), None)
    names = contract.element_names(port) if port is not None else ()
    if names and len(names) == value.size:
        return names
    return tuple(str(position) for position in range(value.size))
