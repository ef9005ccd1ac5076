"""The option `--initial-memory` of commands."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from exploy.diagnosis.reset_starts import InitialMemory

_WORDS = ("reset", "found")


def parse(given: Sequence[str]) -> "InitialMemory":
    """Read the values of the option: one word, or values by memory name; "reset" if it was not given.

    Raises:
        BadParameter: If a value is something else, or a word and names are mixed.
    """
    words = [item for item in given if item in _WORDS]
    if not given or given[-1:] == words:
        return "found" if words == ["found"] else "reset"
    values = {}
    for item in given:
        name, separator, text = item.partition("=")
        if not separator or not name:
            raise typer.BadParameter(
                f"--initial-memory takes 'reset', 'found' or NAME=JSON, one kind at a time; got {item!r}."
            )
        try:
            values[name] = json.loads(text)
        except json.JSONDecodeError as error:
            raise typer.BadParameter(f"--initial-memory {name}: {text!r} is not JSON ({error}).") from None
    return values
