"""The finding for adapters whose compute_observations() returns what step() has computed."""

from exploy.capture.program import FrozenTensor, Sources
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.environment.observations import observation_ports
from exploy.live.location import definition, describe


def is_cached_observation(examination: Examination, frozen: FrozenTensor) -> bool:
    """Whether the observations are this tensor, perhaps scaled or clipped, and are computed from no Input."""
    if frozen not in examination.suspects or not frozen.shape:
        return False
    program, empty = examination.program, observation_ports(examination.env.empty_actor_observations())
    return any(
        _is_only_source(frozen, program.sources[0][name]) and frozen.shape[-1:] == empty[name].shape[-1:]
        for name in program.observation_outputs
    )


def _is_only_source(frozen: FrozenTensor, sources: Sources) -> bool:
    return not sources.inputs and not sources.random and bool(frozen.buffers & sources.buffers)


def cached_observation_finding(examination: Examination, frozen: FrozenTensor) -> Finding:
    """Say that the adapter computes nothing, and who does."""
    codes = [item.writer for item in examination.probes if item.frozen is frozen and item.writer is not None]
    filled = f" by {describe(codes[0], codes[0].co_firstlineno)}" if codes else ""
    what = (
        f"compute_observations() returns this tensor, which step() fills{filled}; nothing is computed from the Inputs, "
        "so the file would always return the observations of the export"
    )
    call = f"call {codes[0].co_name}()" if codes else "compute the observations as step() does"
    advice = f"# in compute_observations(), {call} instead of returning {frozen.name} as it is"
    where = definition(type(examination.env).compute_observations)
    return Finding.of(FindingKind.STALE_CACHE, frozen.name, what, where, advice)
