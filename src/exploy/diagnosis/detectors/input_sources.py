"""Findings about Inputs that a robot does not measure."""

from exploy.contract import InputSource, Port
from exploy.contract.sources import UNTOLD, inputs_by_source
from exploy.description.environment_contract import described_components
from exploy.description.port_semantics import with_semantics
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import MetadataError

_FINDINGS = {
    InputSource.SIMULATOR: (
        FindingKind.SIMULATOR_ONLY,
        "only a simulator knows {them}; a robot cannot have {them}",
        "# train without {them}, or with what the robot can measure or estimate instead",
    ),
    InputSource.ESTIMATED: (
        FindingKind.NEEDS_ESTIMATOR,
        "a robot does not measure {them}; an estimator must give {them}",
        "",
    ),
    UNTOLD: (
        FindingKind.UNKNOWN_SOURCE,
        "it is not told whether a robot can have {them}",
        '# say it by metadata={{"source": "measured"}}, "estimated" or "simulator"',
    ),
}


def source_findings(examination: Examination) -> list[Finding]:
    """One finding for all Inputs that only a simulator knows, one for those to estimate, and one for the others.

    There is none if no source is told.
    """
    try:
        found = inputs_by_source(_inputs(examination))
    except MetadataError:  # the export and the conversion to ONNX report it
        return []
    return [_finding(source, names) for source, names in found.items() if source in _FINDINGS]


def _inputs(examination: Examination) -> list[Port]:
    """The ports of the Inputs that results depend on."""
    program, metadata = examination.program, described_components(examination.env)
    memories = {memory.input_name for memory in program.memories}
    examples = {name: program.examples[name] for name in program.used_inputs if name not in memories}
    return [
        with_semantics(Port(name, str(to_numpy(value).dtype), tuple(value.shape)), metadata, is_output=False)
        for name, value in examples.items()
    ]


def _finding(source: str, names: tuple[str, ...]) -> Finding:
    kind, what, advice = _FINDINGS[source]
    them = "it" if len(names) == 1 else "them"
    return Finding.of(kind, ", ".join(names), what.format(them=them), suggestion=advice.format(them=them))


ON_TRIAL = (source_findings,)
