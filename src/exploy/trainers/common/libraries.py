"""Imports training libraries, with an error that says how to install them."""

import importlib
from typing import Any

from exploy.errors import PolicyError


def library(module: str, extra: str) -> Any:
    """Import a module of a training library or of one of its dependencies.

    Args:
        module: The name of the module.
        extra: The extra of exploy that installs it.

    Raises:
        PolicyError: If it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PolicyError(
            f"{module} cannot be imported ({error}). Install it: pip install 'exploy[{extra}]'"
        ) from error
