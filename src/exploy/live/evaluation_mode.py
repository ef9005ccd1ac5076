"""Runs modules in evaluation mode for a while."""

import contextlib
from collections.abc import Iterable, Iterator

import torch


@contextlib.contextmanager
def evaluation_mode(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Put modules into evaluation mode, and each of their parts back into its own mode afterwards."""
    parts = [part for module in modules for part in module.modules()]
    modes = {part: part.training for part in parts if hasattr(part, "training")}  # a frozen script module has none
    try:
        for part in modes:
            part.training = False
        yield
    finally:
        for part, training in modes.items():
            part.training = training
