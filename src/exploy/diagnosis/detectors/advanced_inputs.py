"""Findings about Inputs that the pipeline itself advances, such as a phase: they are Memories."""

import numpy as np
import torch

from exploy.comparison import difference
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.environment.components import Input, Memory
from exploy.environment.tensor_copies import to_numpy
from exploy.live.attribute_paths import index_paths
from exploy.live.geometry import Geometry, has_memory
from exploy.live.location import definition
from exploy.live.snapshot import Snapshot
from exploy.verify.stepped import Values

_TOLERANCE = 1e-5
_MAX_STEPS = 3


def advanced_input_findings(examination: Examination) -> list[Finding]:
    """Inputs that change with each run of the pipeline alone, and that nothing else in a step writes.

    Raises:
        Exception: Whatever the environment raises.
    """
    experiments = examination.experiments
    used = set(examination.program.used_inputs)
    with experiments.trial() as snapshot:
        inputs = [item for item in _inputs(experiments) if item.input_name in used]
        advanced = _advanced_by_pipeline(experiments, inputs, snapshot)
        if not advanced or examination.evidence.error is not None:
            return []
        names = _written_by_nothing_else(experiments, advanced, snapshot)
    return [_finding(examination, item) for item in advanced if item.input_name in names]


def _inputs(experiments: Experiments) -> list[Input]:
    components = experiments.env.context_manager().get_input_components()
    return [item for item in components if not isinstance(item, Memory)]


def _advanced_by_pipeline(experiments: Experiments, inputs: list[Input], snapshot: Snapshot) -> list[Input]:
    """Inputs that each of two policy steps changes, although the simulator is not stepped."""
    values = [_read(inputs)]
    for _ in range(2):
        experiments.policy_step()
        values.append(_read(inputs))
    snapshot.restore()
    first, second, third = values
    names = {name for name in first if not _agree(first, second, name) and not _agree(second, third, name)}
    return [item for item in inputs if item.input_name in names]


def _written_by_nothing_else(experiments: Experiments, advanced: list[Input], snapshot: Snapshot) -> set[str]:
    """Names of the inputs that a real step leaves with the value that the pipeline alone gives them.

    The pipeline is run with the other Inputs before the step and after it, because it may compute the observations
    before the simulator moves or after that.
    """
    others = [item for item in _inputs(experiments) if item not in advanced]
    was_reset, observations = True, experiments.observations
    for _ in range(_MAX_STEPS):
        snapshot.restore()
        was_reset = experiments.step()
        if not was_reset:
            break
    experiments.observations = observations
    if was_reset:
        return set()
    real, moved = _read(advanced), _read(others)
    names: set[str] = set()
    for values in ({}, moved):
        snapshot.restore()
        for item in others if values else []:
            tensor = item.fetch()
            tensor.copy_(_tensor_like(tensor, values[item.input_name]))
        _whole_policy_step(experiments)
        alone = _read(advanced)
        names |= {name for name in real if _agree(real, alone, name)}
    snapshot.restore()
    return names


def _whole_policy_step(experiments: Experiments) -> None:
    stages = experiments.stages
    stages.process(stages.act(stages.observe()))
    for _ in range(experiments.env.decimation - 1):
        stages.sub_step()


def _finding(examination: Examination, item: Input) -> Finding:
    what = "registered as an Input, but the pipeline itself advances it and nothing else writes it; it is a memory"
    tensor = item.fetch()
    named = index_paths(examination.experiments.roots).find(Geometry.of(tensor)) if has_memory(tensor) else None
    if named is None or tuple(named.value.shape) != tuple(tensor.shape):
        suggestion = f"# register it as a Memory instead: Memory({item.name!r}, …)"
    else:
        suggestion = examination.suggest("Memory", named.attr_path, item.name)
    return Finding.of(FindingKind.MISSING_MEMORY, item.input_name, what, definition(item.get_from_env_cb), suggestion)


def _read(inputs: list[Input]) -> Values:
    return {item.input_name: to_numpy(item.fetch()) for item in inputs}


def _tensor_like(tensor: torch.Tensor, value: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(value).to(tensor.device)


def _agree(one: Values, two: Values, name: str) -> bool:
    return difference(one[name], two[name], _TOLERANCE, _TOLERANCE) is None


ON_TRIAL = (advanced_input_findings,)
