"""Findings about Connections that the file writes and the environment does not."""

from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.environment.components import Connection
from exploy.environment.observations import observation_arrays
from exploy.live.interception import functions_with, intercepted
from exploy.live.location import definition
from exploy.verify.stepped import same_values


def unwritten_connection_findings(examination: Examination) -> list[Finding]:
    """Check whether a step of the environment writes its Connections. Used where program and environment differ.

    Raises:
        Exception: Any error that the environment raises.
    """
    experiments = examination.experiments
    connections = experiments.env.context_manager().get_connection_components()
    if not connections:
        return []
    calls: list[object] = []
    with intercepted(functions_with([Connection.write.__code__]), calls.append, lambda _: None):
        experiments.step()
    if calls and not _are_written_too_late(experiments):
        return []
    what = "the file writes it before each step and sub-step, but env.step() "
    what += "computes observations without it" if calls else "does not call write_connections()"
    advice = (
        "# call context_manager().write_connections() in step(): before observations are computed, and before each "
        "apply_actions()"
    )
    where = definition(type(experiments.env).step)
    return [
        Finding.of(FindingKind.UNWRITTEN_CONNECTION, connection.name, what, where, advice) for connection in connections
    ]


def _are_written_too_late(experiments: Experiments) -> bool:
    """Whether the observations of the last step are those that are computed if Connections are not written."""
    given = experiments.observations
    assert given is not None
    expected = observation_arrays(given)
    with experiments.trial() as snapshot:
        is_without = same_values(observation_arrays(experiments.env.compute_observations()), expected)
        snapshot.restore()
        return is_without and not same_values(observation_arrays(experiments.stages.observe()), expected)
