"""Checks of observations for NaN, which branch on values."""

import importlib
from typing import Any

import torch

from exploy.environment.substitutes import Substitute, substitute


def checks_for_nan() -> Substitute:
    """A substitute for the check of observations that has no branch."""
    manager = importlib.import_module("mjlab.managers.observation_manager").ObservationManager
    return substitute(manager._check_and_handle_nans, without_branches)


def without_branches(manager: Any, tensor: torch.Tensor, context: str, policy: str) -> torch.Tensor:
    """Replace NaN and infinities by zero if the policy says so; where it is "error", a controller has its own guard."""
    if policy in ("warn", "sanitize"):
        return torch.nan_to_num(tensor, nan=0.0, posinf=0.0, neginf=0.0)
    return tensor
