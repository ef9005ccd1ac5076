"""Errors as findings: what stops a capture or a step is told like everything else."""

import re
from collections.abc import Callable
from typing import TypeVar

from exploy.diagnosis.finding import Finding, FindingKind
from exploy.errors import ExployError
from exploy.live.location import UNKNOWN, raising_line

Subject = TypeVar("Subject")

_PLACE = re.compile(r"^(?P<where>[^\n]+?:\d+ \(in [^)]*\)): (?P<message>.*)$", re.DOTALL)


def failure(kind: FindingKind, tensor: str, error: Exception) -> Finding:
    """An error as a finding: its first sentence is what happened, the rest what to do about it."""
    message, where = str(error) or type(error).__name__, raising_line(error)
    place = _PLACE.match(message)
    if place is not None:
        where, message = place["where"], place["message"]
    where = "" if where == UNKNOWN else where
    if not isinstance(error, ExployError):
        name = type(error).__name__
        return Finding.of(kind, tensor, f"{name}: {message}", where, f"# mend the {name} raised at {where or 'a step'}")
    what, _, advice = message.partition(". ")
    return Finding.of(kind, tensor, what, where, f"# {' '.join(advice.split()) or what}")


def guarded(detector: Callable[[Subject], list[Finding]], subject: Subject) -> list[Finding]:
    """What a detector finds; if code of the user's fails in it, that is the finding."""
    try:
        return detector(subject)
    except Exception as error:
        return [failure(FindingKind.CANNOT_STEP, "env", error)]
