"""Findings about memories that step() writes and that the stages, and so the file, do not."""

from exploy.capture.program import ProgramMemory
from exploy.diagnosis.evidence.probing import WriteLog
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.live.location import definition, describe

_ABOUT_STARTS = (FindingKind.START_VALUE, FindingKind.NO_CONSTANT_START)  # they explain nothing within an episode


def written_by_step_findings(examination: Examination) -> list[Finding]:
    """Memories that have another value after a step than the program gives them; must be called after the detectors.

    The program gets the memories of the environment before each step. If a memory that it only passes on differs
    afterwards, step() has written it. If it computes the memory, another finding may explain the difference.
    """
    outputs = examination.evidence.tally.outputs
    errors = [item for item in examination.findings if item.severity is Severity.ERROR]
    is_explained = any(item.kind not in _ABOUT_STARTS for item in errors)
    different = {name: item.first for name, item in outputs.items() if item.first is not None}
    memories = [item for item in examination.program.memories if item.output_name in different and not item.carried]
    others = different.keys() - {memory.output_name for memory in memories}
    found = [
        (memory, _is_passed_on(examination, memory))
        for memory in memories
        if _is_passed_on(examination, memory) or not (is_explained or others or examination.difference)
    ]
    if not found:
        return []
    lines = _lines(examination, [memory for memory, _ in found])
    return [
        _finding(memory, is_passed_on, f"{different[memory.output_name]}", lines[memory.name])
        for memory, is_passed_on in found
    ]


def _is_passed_on(examination: Examination, memory: ProgramMemory) -> bool:
    """Whether no stage writes a memory: its output depends on its input alone, and equals it."""
    name, program = memory.output_name, examination.program
    written = [step[name] for step in program.sources if name in step]
    if any(sources.inputs != {memory.input_name} for sources in written):
        return False
    results = [step[name] for step in program.run(program.examples) if name in step]
    return all(bool((result == memory.initial).all()) for result in results)


def _finding(memory: ProgramMemory, is_passed_on: bool, shown: str, where: str) -> Finding:
    whose = "no stage of the pipeline does" if is_passed_on else "changes what the pipeline has written"
    what = f"step() writes it, and {whose}, so the file cannot follow: {shown}"
    advice = (
        f"# write {memory.name} in process_actions() or compute_observations(), which the file contains, or register "
        "it as an Input if the robot can give it"
    )
    return Finding.of(FindingKind.WRITTEN_BY_STEP, memory.input_name, what, where, advice)


def _lines(examination: Examination, memories: list[ProgramMemory]) -> dict[str, str]:
    """The functions that write the memories last in a real step, which is undone; step() where that is not known."""
    experiments = examination.experiments
    step = definition(type(examination.env).step)
    components = {item.name: item for item in examination.env.context_manager().get_memory_components()}
    observations = experiments.observations
    with experiments.trial():
        with WriteLog() as log:
            experiments.step()
        tensors = {memory.name: experiments.fetch(components[memory.name]) for memory in memories}
        codes = {name: None if tensor is None else log.writer(tensor) for name, tensor in tensors.items()}
    experiments.observations = observations
    return {name: step if code is None else describe(code, code.co_firstlineno) for name, code in codes.items()}
