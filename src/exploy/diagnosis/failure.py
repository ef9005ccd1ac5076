"""Converts errors in a capture or a step to findings."""

import re
from collections.abc import Callable
from typing import TypeVar

from exploy.diagnosis.finding import Finding, FindingKind
from exploy.errors import ExployError
from exploy.live.location import UNKNOWN, raising_line

Subject = TypeVar("Subject")

_PLACE = re.compile(r"^(?P<where>[^\n]+?:\d+ \(in [^)]*\)): (?P<message>.*)$", re.DOTALL)


def failure(kind: FindingKind, tensor: str, error: Exception) -> Finding:
    """Convert an error to a finding. The first sentence of its message is `what`, the rest is the suggestion."""
    message, where = str(error) or type(error).__name__, raising_line(error)
    place = _PLACE.match(message)
    if place is not None:
        where, message = place["where"], place["message"]
    where = "" if where == UNKNOWN else where
    if not isinstance(error, ExployError):
        name = type(error).__name__
        return Finding.of(kind, tensor, f"{name}: {message}", where, f"# fix the {name} raised at {where or 'a step'}")
    what, _, advice = message.partition(". ")
    return Finding.of(kind, tensor, what, where, f"# {' '.join(advice.split()) or what}")


def guarded(detector: Callable[[Subject], list[Finding]], subject: Subject) -> list[Finding]:
    """The findings of a detector. If it raises, for example in user code, the error is the finding."""
    try:
        return detector(subject)
    except Exception as error:
        return [failure(FindingKind.CANNOT_STEP, "env", error)]
