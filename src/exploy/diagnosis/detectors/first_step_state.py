"""Findings about state that is created, or becomes stale, after the first policy step.

A capture records the first policy step. It does not show a problem with a cache that was empty then, or a hidden state
that was None. So program and environment are compared without stepping the simulator. If they differ, the environment
is captured again after a step. Tensors that are frozen only in the second capture are the cause.
"""

import warnings

import torch

from exploy.capture.capture import capture
from exploy.capture.perturbation import around
from exploy.capture.program import FrozenTensor
from exploy.capture.sensitivity import Sensitivity
from exploy.diagnosis.detectors.stale_cache import find_refreshes
from exploy.diagnosis.evidence.experiments import ABSENT, Experiments
from exploy.diagnosis.evidence.probing import Probe
from exploy.diagnosis.evidence.stepped_program import SteppedProgram
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.errors import VerificationError, WeakerCheckWarning
from exploy.live.geometry import Geometry
from exploy.live.location import UNKNOWN
from exploy.live.snapshot import Snapshot
from exploy.verify.export_checks import compare_with_environment


def standing_still_difference(examination: Examination, stepped: SteppedProgram, snapshot: Snapshot) -> str | None:
    """How program and environment differ over some steps without the simulator; None if they agree.

    Args:
        examination: The captured environment.
        stepped: The captured program.
        snapshot: A snapshot of the current environment.
    """
    experiments = examination.experiments
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakerCheckWarning)
            compare_with_environment(experiments.env, experiments.actor, examination.program, stepped, snapshot)
    except VerificationError as error:
        return str(error).partition(" Nothing was written.")[0].partition("\n")[0]
    return None


def first_step_findings(examination: Examination) -> list[Finding]:
    """Tensors that are frozen only if the environment is captured after its first policy step."""
    experiments = examination.experiments
    known = {item.name for item in examination.program.frozen_and_weights}
    with experiments.trial():
        experiments.policy_step()
        program = capture(experiments.env, experiments.actor)
        late = [item for item in program.frozen_and_weights if item.name not in known]
        sensitivity = Sensitivity(program)
        suspects = [item for item in late if item.live is None and sensitivity.depends_on(item)]
    calls = [_creating_call(experiments, item) for item in suspects]
    with experiments.trial():
        experiments.policy_step()
        findings = [_finding(examination, item, call) for item, call in zip(suspects, calls, strict=True)]
    constant = {item.name for item in suspects if not _depends_on_inputs(experiments, item)}
    return [finding for finding in findings if finding.tensor not in constant]


def _depends_on_inputs(experiments: Experiments, frozen: FrozenTensor) -> bool:
    """Whether a tensor that the first policy step creates depends on the values of the Inputs."""
    with experiments.trial():
        generator = torch.Generator().manual_seed(0)
        for component in experiments.env.context_manager().get_input_components():
            tensor = experiments.fetch(component)
            if tensor is not None:
                tensor.copy_(around(tensor, generator))
        experiments.policy_step()
        return experiments.has_changed(frozen)


def _creating_call(experiments: Experiments, frozen: FrozenTensor) -> str:
    """The call after which a tensor exists, as code: the first one of a policy step."""
    env, stages = experiments.env, experiments.stages
    with experiments.trial():
        observations = stages.observe()
        if experiments.live(frozen) is not None:
            return "env.compute_observations()"
        actions = stages.act(observations)
        if experiments.live(frozen) is not None:
            return "actor(env.empty_actor_observations())"
        env.process_actions(actions)
        if experiments.live(frozen) is not None:
            return "env.process_actions(env.empty_actions())"
        return "env.process_actions(env.empty_actions())\nenv.apply_actions()"


def _finding(examination: Examination, frozen: FrozenTensor, creating_call: str) -> Finding:
    where = "" if frozen.where == UNKNOWN else frozen.where
    values_before = examination.python_before
    warm = Experiments(examination.experiments.env, examination.experiments.actor)
    if frozen.is_written or _is_written_by_a_step(warm, frozen):
        what = "created by the first policy step and read in the next; missing at export, so the file does not have it"
        advice = f"{creating_call}\n{examination.suggest_memory(frozen, warm)}"
        return Finding.of(FindingKind.MISSING_MEMORY, frozen.name, what, where, advice)
    values = [
        (attr_path, values_before[attr_path])
        for attr_path in sorted(examination.own_changes.python)
        if attr_path in values_before
    ]
    values.append((frozen.name, values_before.get(frozen.name, ABSENT)))
    refresh = find_refreshes(warm, [Probe(frozen, tuple(values))]).get(frozen.name)
    what = "a cache that was computed at export and is not computed again unless the simulator is stepped"
    if refresh is None:
        advice = f"# add a Connection that makes the environment compute {frozen.name} again"
        return Finding.of(FindingKind.STALE_CACHE, frozen.name, what, where, advice)
    what += f"; it is computed {refresh.condition}"
    return Finding.of(FindingKind.STALE_CACHE, frozen.name, what, where, refresh.suggestion)


def _is_written_by_a_step(experiments: Experiments, frozen: FrozenTensor) -> bool:
    with experiments.trial():
        before = experiments.live(frozen)
        place = Geometry.of(before) if isinstance(before, torch.Tensor) else None
        experiments.policy_step()
        after = experiments.live(frozen)
        moved = isinstance(after, torch.Tensor) and place is not None and not Geometry.of(after).same_place(place)
        return moved or experiments.has_changed(frozen)
