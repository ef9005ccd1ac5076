"""Puts the substitutes of an environment in place, after each was compared with its original."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from exploy.contract import UsedSubstitute
from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.live.substituted import substituted
from exploy.verify.substitute_trials import Trial, try_substitute
from exploy.verify.watched_calls import watch_calls


@dataclass(frozen=True)
class TrustedSubstitutes:
    """The substitutes that are in place, each with what was compared, and those that the pipeline does not call."""

    trials: tuple[Trial, ...] = ()
    unused: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[UsedSubstitute, ...] | None:
        """The substitutes that are in place, for the contract; None if there are none."""
        return (
            tuple(
                UsedSubstitute(
                    trial.substitute.name, trial.substitute.replacement_name, trial.comparisons, trial.largest_error
                )
                for trial in self.trials
            )
            or None
        )


@contextlib.contextmanager
def trusted_substitutes(
    env: ExportableEnvironment, actor: torch.nn.Module | None, *, with_reset: bool
) -> Iterator[TrustedSubstitutes]:
    """Compare the registered substitutes with their originals, and put those in place that the pipeline calls.

    They are taken back at the end of the block, also after an error.

    Args:
        env: The environment.
        actor: The actor, in evaluation mode; None if there is none.
        with_reset: Whether the environment may be reset, to see how a reset calls the originals.

    Raises:
        SubstituteError: If a replacement does not do what its original does. Then none is put in place.
    """
    registered = env.context_manager().substitutes
    calls = watch_calls(env, actor, with_reset=with_reset) if registered else []
    used = [item for item in registered if any(call.substitute is item and call.in_pipeline for call in calls)]
    trials = [try_substitute(item, [call for call in calls if call.substitute is item]) for item in used]
    del calls  # they hold objects of the environment
    with substituted(used):
        yield TrustedSubstitutes(tuple(trials), tuple(item.name for item in registered if item not in used))
