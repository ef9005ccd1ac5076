"""Runs modules temporarily in evaluation mode."""

import contextlib
from collections.abc import Iterable, Iterator

import torch


@contextlib.contextmanager
def evaluation_mode(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Put modules into evaluation mode, and restore the mode of each submodule afterwards."""
    parts = [part for module in modules for part in module.modules()]
    modes = {part: part.training for part in parts if hasattr(part, "training")}  # a frozen script module lacks it
    try:
        for part in modes:
            part.training = False
        yield
    finally:
        for part, training in modes.items():
            part.training = training
