"""Findings about random numbers in the pipeline."""

import random
import re
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from exploy.capture.program import ACTIONS, RandomOperator
from exploy.capture.two_rates import ACT, OBSERVE
from exploy.diagnosis.evidence.experiments import assign, equal, same_results
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.environment.actor import unwrapped
from exploy.environment.observations import OBSERVATIONS
from exploy.live.location import definition
from exploy.live.python_values import PythonValues
from exploy.live.snapshot import Snapshot

_SEED = 20_011
_NOISY_NAMES = re.compile(r"nois[ey]|corrupt|random|perturb|jitter", re.IGNORECASE)


def random_findings(examination: Examination) -> list[Finding]:
    """Random torch operators, and random numbers from numpy and Python, that results depend on."""
    operators = examination.program.random_operators
    findings = [
        _in_actor(examination, item) if item.stage == ACT else _in_environment(examination, item) for item in operators
    ]
    if not operators:
        findings += _hidden(examination)
    return findings


def in_words(operator: RandomOperator) -> tuple[str, str]:
    """Text for the stage that draws the random numbers, and a name for the noise."""
    if operator.stage == OBSERVE:
        return "observations are computed", "observation noise"
    return "actions are processed", "action noise"


def _in_actor(examination: Examination, operator: RandomOperator) -> Finding:
    what = f"the actor draws random numbers with {operator.name}"
    if examination.allow_random:
        return Finding(FindingKind.RANDOM, Severity.INFO, "actor", operator.where, what, "")
    advice = "# export the deterministic form of the policy, or pass allow_random=True to the export"
    return Finding.of(FindingKind.RANDOM, "actor", what, operator.where, advice)


def _in_environment(examination: Examination, operator: RandomOperator) -> Finding:
    stage, noise = in_words(operator)
    tensor = OBSERVATIONS if operator.stage == OBSERVE else "env.process_actions()"
    switch = _switch(examination) if operator.stage == OBSERVE else None
    advice = f"# disable {noise} before exporting, in prepare_export()"
    return Finding.of(
        FindingKind.RANDOM,
        tensor,
        f"random numbers are drawn with {operator.name} where {stage}",
        operator.where,
        examination.or_else(f"{switch} = False", advice) if switch else advice,
    )


def _switch(examination: Examination) -> str | None:
    """Try flags of the environment with noise-related names; return the one that disables random numbers."""
    experiments = examination.experiments
    flags = [
        attr_path
        for attr_path, value in PythonValues({"env": experiments.env}).values.items()
        if value is True and _NOISY_NAMES.search(attr_path.rpartition(".")[2])
    ]
    with experiments.trial() as snapshot:
        for attr_path in flags:
            try:
                assign(experiments.roots, attr_path, False)
                with _RandomLog() as log:
                    experiments.stages.observe()
            except Exception:
                continue
            finally:
                snapshot.restore()
            if not log.is_random:
                return attr_path
    return None


class _RandomLog(TorchDispatchMode):
    """Notes whether a random operator is called."""

    is_random = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note whether an operator is random, and run it."""
        self.is_random |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def _hidden(examination: Examination) -> list[Finding]:
    """Find results that depend on random generators outside of torch."""
    experiments = examination.experiments
    with experiments.trial() as snapshot:
        one = experiments.policy_step()
        snapshot.restore()
        again = experiments.policy_step()
        snapshot.restore()
        if not same_results(one, again):
            return []  # not everything can be restored, so results cannot be compared
        _advance_generators(snapshot)
        two = experiments.policy_step()
    different = [name for name, value in one[0].items() if not equal(value, two[0][name])]
    if not different:
        return []
    env = type(experiments.env)
    stages = {
        **dict.fromkeys(examination.program.observation_outputs, env.compute_observations),
        ACTIONS: getattr(type(unwrapped(experiments.actor)), "forward", None),
    }
    return [
        Finding.of(
            FindingKind.RANDOM,
            different[0],
            "depends on random numbers from numpy or Python; the file would keep the numbers of the export",
            definition(stages.get(different[0], env.process_actions)),
            "# disable noise before exporting, in prepare_export()",
        )
    ]


def _advance_generators(snapshot: Snapshot) -> None:
    """Change the state of all random generators except those of torch."""
    np.random.seed(_SEED)
    random.seed(_SEED)
    for generator in snapshot.generators:
        if isinstance(generator, np.random.Generator):
            generator.random()
        else:
            generator.seed(_SEED)


ON_TRIAL = (random_findings,)
