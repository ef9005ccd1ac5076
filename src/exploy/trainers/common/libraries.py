"""Imports training libraries, or says how to get them."""

import importlib
from typing import Any

from exploy.errors import PolicyError


def library(module: str, extra: str) -> Any:
    """A module of a training library, or of what it needs.

    Args:
        module: Its name.
        extra: The extra of exploy that installs it.

    Raises:
        PolicyError: If it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PolicyError(f"{module} cannot be imported ({error}): pip install 'exploy[{extra}]'") from error
