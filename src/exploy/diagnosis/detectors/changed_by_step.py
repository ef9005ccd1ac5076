"""Findings about step() functions that change actions or observations outside of the stages, and so of the file."""

from typing import Any

import torch

from exploy.capture.program import ACTIONS
from exploy.comparison import Difference, difference
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.environment.exportable_environment import ExportableEnvironment, Observations
from exploy.environment.observations import observation_ports, step_environment, validated_observations
from exploy.environment.tensor_copies import to_numpy
from exploy.live.location import definition

_TOLERANCE = 1e-5

Groups = dict[str, torch.Tensor]


def changed_by_step_findings(examination: Examination) -> list[Finding]:
    """Compare what step() gets and returns with what the stages get and return in it.

    Used where program and environment differ. The step is undone. A step that resets the environment says nothing.

    Raises:
        Exception: Any error that the environment raises.
    """
    experiments = examination.experiments
    with experiments.trial():
        given, processed, computed, returned = _watched_step(experiments, examination)
    where = definition(type(experiments.env).step)
    findings = []
    if (changed := _only_different(processed, given)) is not None:
        what = f"process_actions() does not get what step() gets: {_shown(changed, 'there', 'given to step()')}"
        advice = "# change the actions in process_actions(), which the file contains, and not in step()"
        findings.append(Finding.of(FindingKind.WRITTEN_BY_STEP, ACTIONS, what, where, advice))
    for name, tensor in returned.items():
        changed = _only_different([item[name] for item in computed if name in item], tensor)
        if changed is None:
            continue
        what = f"compute_observations() does not return what step() returns: {_shown(changed, 'there', 'by step()')}"
        advice = "# change the observations in compute_observations(), which the file contains, and not in step()"
        findings.append(Finding.of(FindingKind.WRITTEN_BY_STEP, name, what, where, advice))
    return findings


def _watched_step(
    experiments: Experiments, examination: Examination
) -> tuple[torch.Tensor, list[torch.Tensor], list[Groups], Groups]:
    """A step: the actions given to it, those processed in it, the observations computed in it, and those returned.

    A step that resets the environment returns none.
    """
    env = experiments.env
    actions = experiments.actor(validated_observations(env, "observations_reset"))
    given = actions.clone()
    processed, computed = _watch_stages(env)
    returned, was_reset = step_environment(env, actions)
    seen = list(computed)
    if not seen and not examination.program.written_by_observations:
        seen = [_copied(env.compute_observations())]
    return given, processed, seen, {} if was_reset else observation_ports(returned)


def _watch_stages(env: ExportableEnvironment) -> tuple[list[torch.Tensor], list[Groups]]:
    """Collect what process_actions() gets and compute_observations() returns, until the trial is over."""
    processed: list[torch.Tensor] = []
    computed: list[Groups] = []
    process, compute = env.process_actions, env.compute_observations

    def process_actions(actions: torch.Tensor) -> None:
        processed.append(actions.clone())
        process(actions)

    def compute_observations() -> Observations:
        observations = compute()
        computed.append(_copied(observations))
        return observations

    attributes: dict[str, Any] = vars(env)
    attributes |= {"process_actions": process_actions, "compute_observations": compute_observations}
    return processed, computed


def _copied(observations: Observations) -> Groups:
    return {name: tensor.clone() for name, tensor in observation_ports(observations).items()}


def _only_different(candidates: list[torch.Tensor], expected: torch.Tensor) -> Difference | None:
    """How the last of some tensors differs from the expected one; None if there is none, or one is equal."""
    found = [
        difference(to_numpy(expected), to_numpy(item), _TOLERANCE, _TOLERANCE)
        for item in candidates
        if item.shape == expected.shape
    ]
    return None if None in found or not found else found[-1]


def _shown(found: Difference, got: str, expected: str) -> str:
    return f"element {list(found.index)} is {found.got:.6g} {got}, {found.expected:.6g} {expected}"
