"""Imports torchvision with a torch version that it was not built for. TorchRL's Resize needs torchvision."""

import importlib

import torch


def import_torchvision() -> None:
    """Declare the operators that torchvision's compiled library would define, then import torchvision."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    importlib.import_module("torchvision")
