"""Requirements that raise an error and stop the export."""

from exploy.capture.program import Program
from exploy.capture.two_rates import ACT
from exploy.diagnosis.check import diagnose
from exploy.diagnosis.detectors.randomness import in_words
from exploy.diagnosis.diagnosis import Diagnosis
from exploy.diagnosis.evidence.experiments import Experiments
from exploy.diagnosis.reset_starts import MemoryStarts
from exploy.environment.actor import ExportableActor
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.errors import RandomOperatorError, UnregisteredStateError


def require_deterministic(program: Program, allow_random: bool) -> None:
    """Raise if the environment draws random numbers, or if the actor does and this is not allowed.

    Raises:
        RandomOperatorError: With the operator and the line of the call.
    """
    for operator in program.random_operators:
        if operator.stage == ACT and not allow_random:
            raise RandomOperatorError(
                f"{operator.where}: the actor draws random numbers ({operator.name}). Export the deterministic form of "
                "the policy, or pass allow_random=True."
            )
        if operator.stage != ACT:
            stage, noise = in_words(operator)
            raise RandomOperatorError(
                f"{operator.where}: random numbers are drawn ({operator.name}) where {stage}. Disable {noise} "
                "before exporting, for example in prepare_export()."
            )


def require_no_errors(
    env: ExportableEnvironment, actor: ExportableActor, program: Program, allow_random: bool, starts: MemoryStarts
) -> Diagnosis:
    """Check a captured environment, undo the steps of the check, and raise if there are errors.

    Raises:
        UnregisteredStateError: With the printed findings.
    """
    with Experiments(env, actor).trial():
        diagnosis = diagnose(env, actor, program, allow_random=allow_random, starts=starts)
    if diagnosis.errors:
        raise UnregisteredStateError(f"{diagnosis}\nNothing was written.", diagnosis)
    return diagnosis
