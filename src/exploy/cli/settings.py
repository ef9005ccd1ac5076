"""Parses the values of `--set`."""

import json
from typing import Any

from exploy.errors import FactoryError


def parsed_setting(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE. The value is parsed as JSON if possible, otherwise it stays a string.

    Raises:
        FactoryError: If there is no name or no value.
    """
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise FactoryError(f"--set takes NAME=VALUE, such as frame_stack=4, got {text!r}.")
    try:
        return name, json.loads({"True": "true", "False": "false", "None": "null"}.get(value, value))
    except ValueError:
        return name, value
