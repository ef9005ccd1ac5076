"""Findings about values that are not finite, and about the names of observations."""

from typing import Any

import torch
from torch import fx

from exploy.capture.program import Program
from exploy.capture.recording import WHERE
from exploy.diagnosis.evidence.stepping import NotFinite
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.environment.observations import (
    OBSERVATIONS,
    observation_ports,
    validated_observation_names,
    validated_observations,
)
from exploy.errors import ExployError
from exploy.live.location import UNKNOWN, definition


def name_findings(examination: Examination) -> list[Finding]:
    """Check that there is one name for each element of the observation; groups such as images need no names."""
    env = examination.env
    where = definition(type(env).get_observation_names)
    try:
        ports = observation_ports(validated_observations(env, "empty_actor_observations"))
        names = validated_observation_names(env)
        widths = {name: tensor.shape[-1] for name, tensor in ports.items() if name in names or tensor.dim() <= 2}
    except (ExployError, IndexError) as error:
        return [Finding.of(FindingKind.WRONG_NAMES, "env.get_observation_names()", str(error), where)]
    wrong = [
        f"{len(names.get(name, ()))} names for {width} elements of {_of_what(name)}"
        for name, width in widths.items()
        if len(names.get(name, ())) != width
    ]
    wrong += [f"names of {name}, which compute_observations() does not return" for name in names if name not in ports]
    if not wrong:
        return []
    if OBSERVATIONS in ports:
        advice = f'env.get_observation_names = lambda: [f"obs_{{i}}" for i in range({widths[OBSERVATIONS]})]'
    else:
        advice = "# return a dictionary with one name per element of each group from get_observation_names()"
    what = f"returns {'; '.join(wrong)}"
    return [Finding.of(FindingKind.WRONG_NAMES, "env.get_observation_names()", what, where, advice)]


def _of_what(port: str) -> str:
    return "the observation" if port == OBSERVATIONS else port


def finite_findings(examination: Examination) -> list[Finding]:
    """Values that were NaN or infinite while the environment was stepped.

    The finding is about the first one, which can be an Input or a result; later ones may be caused by it. If an Input
    is not finite but all results are finite, the finding is only an info.
    """
    evidence, program, names = examination.evidence, examination.captured, examination.observation_names
    if not evidence.not_finite:
        return []
    inputs = [name for name in evidence.not_finite if program is not None and name in program.input_names]
    first, *others = evidence.not_finite
    if len(inputs) == len(evidence.not_finite):
        return [_input(name, evidence.not_finite[name], []) for name in inputs]
    results = [name for name in others if name not in inputs]
    if first in inputs:
        return [_input(first, evidence.not_finite[first], results)]
    return [_result(first, evidence.not_finite[first], results, program, names.get(first, ()))]


def _input(name: str, found: NotFinite, results: list[str]) -> Finding:
    what = f"was {found.value} at step {found.step}, element {list(found.index)}"
    if not results:
        return Finding(FindingKind.NOT_FINITE, Severity.INFO, name, "", f"{what}; all results were still finite", "")
    advice = f"# keep {name} finite in the simulator, or guard the code that reads it with torch.nan_to_num()"
    return Finding.of(FindingKind.NOT_FINITE, name, f"{what}; also not finite: {', '.join(results)}", "", advice)


def _result(name: str, found: NotFinite, others: list[str], program: Program | None, names: tuple[str, ...]) -> Finding:
    element = names[found.index[-1]] if found.index and found.index[-1] < len(names) else None
    what = f"was {found.value} at step {found.step}, element {list(found.index)}{f' ({element})' if element else ''}"
    what += f"; also not finite: {', '.join(others)}" if others else ""
    where = _line_of_first_not_finite(program, found) if program is not None and found.program_inputs else UNKNOWN
    advice = "# guard the operation that makes it, for example with a clamp before a division, a root or a logarithm"
    return Finding.of(FindingKind.NOT_FINITE, name, what, "" if where == UNKNOWN else where, advice)


def _line_of_first_not_finite(program: Program, found: NotFinite) -> str:
    """The line of the first operation whose result is not finite although its arguments are."""
    tracer = _FirstNotFinite(program.module)
    with torch.no_grad():
        tracer.run(*(found.program_inputs[name] for name in program.input_names))
    return tracer.where


class _FirstNotFinite(fx.Interpreter):
    """Runs a graph and notes the first result that is not finite although all arguments are."""

    where = UNKNOWN

    def run_node(self, n: fx.Node) -> Any:
        """Run one operation and check its result."""
        arguments = [self.env[node] for node in n.all_input_nodes]
        result = super().run_node(n)
        is_operation = n.op == "call_function" and self.where == UNKNOWN
        if is_operation and not _is_finite(result) and all(_is_finite(item) for item in arguments):
            self.where = n.meta.get(WHERE, UNKNOWN)
        return result


def _is_finite(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return True
    return bool(torch.isfinite(value).all())


BEFORE = (name_findings,)
OF_STEPS = (finite_findings,)
