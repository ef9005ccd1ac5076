"""Finds the terms of an observation from the names of its elements."""

import re
from collections.abc import Sequence

from exploy.contract.parts import ObservationTerm

_NUMBERED = re.compile(r"(?P<stem>.*?)[_.\[/]?(?P<number>\d+)\]?")


def terms_of(names: Sequence[str], port: str | None = None) -> tuple[ObservationTerm, ...]:
    """Group consecutive elements that count up from 0 under one name (`pos_0`, `pos_1`, …) into terms.

    An element without such a number, or one that does not continue the count, is a separate term.
    `port` is the port of a group of observations.
    """
    terms: list[ObservationTerm] = []
    for position, name in enumerate(names):
        stem, number = _stem(name)
        last = terms[-1] if terms else None
        if last is not None and stem == last.name and number == position - last.start > 0:
            terms[-1] = ObservationTerm(last.name, last.start, position + 1, port)
        else:
            terms.append(ObservationTerm(stem if number == 0 else name, position, position + 1, port))
    return tuple(terms)


def _stem(name: str) -> tuple[str, int | None]:
    found = _NUMBERED.fullmatch(name)
    return (found["stem"], int(found["number"])) if found and found["stem"] else (name, None)
