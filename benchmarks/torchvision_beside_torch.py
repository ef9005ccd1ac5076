"""Lets torchvision be imported beside a torch that it was not built for, which TorchRL's Resize needs."""

import importlib

import torch


def import_torchvision() -> None:
    """Declare the operators that torchvision's own library would bring, and import it."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    importlib.import_module("torchvision")
