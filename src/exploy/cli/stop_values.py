"""The option `--on-stop` of commands."""

import json
from collections.abc import Sequence
from typing import Any

import typer

from exploy.contract.on_stop import ON_STOP_WORDS


def parse(given: Sequence[str], may_omit_name: bool) -> Any:
    """Read the values of the option: stop values by output, or one for the actions; None if it was not given.

    Args:
        given: The values, as [OUTPUT=]VALUE. A value is a word, or JSON.
        may_omit_name: Whether a single value without a name is allowed.

    Raises:
        BadParameter: If a value is something else, or an output is named twice.
    """
    if may_omit_name and len(given) == 1 and "=" not in given[0]:
        return _value(given[0])
    stops: dict[str, Any] = {}
    for item in given:
        name, separator, text = item.rpartition("=")
        if not separator or not name or name in stops:
            raise typer.BadParameter(f"--on-stop takes OUTPUT=VALUE, once for each output, got {item!r}.")
        stops[name] = _value(text)
    return stops or None


def _value(text: str) -> Any:
    if text in ON_STOP_WORDS:
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise typer.BadParameter(
            f"--on-stop takes {', '.join(ON_STOP_WORDS)}, a number or a JSON list of numbers, got {text!r}."
        ) from None
