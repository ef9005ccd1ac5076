"""Squeezes around convolutions of single images are removed, and the values do not change."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from exploy.driver.policy_export import export_policy
from exploy.policy.policy import Policy, PolicyInput, Tensors
from exploy.runtime import Controller


class OneImage(Policy):
    """Convolutions of an image without batch axis, whose intermediate results are also used."""

    def __init__(self, looks_in_between: bool):
        super().__init__([PolicyInput("image", (2, 12, 12))], outputs=("actions", *["between"] * looks_in_between))
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Conv2d(2, 3, 3), torch.nn.Conv2d(3, 4, 3)
        self.looks_in_between = looks_in_between

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        between = torch.relu(self.first(inputs[0]))
        actions = torch.tanh(torch.nn.functional.elu(self.second(between))).flatten()
        return ((actions, between) if self.looks_in_between else (actions,)), ()


@pytest.mark.parametrize(("looks_in_between", "opset", "squeezes"), [(False, 20, 1), (True, 20, 2), (False, 11, 1)])
def test_only_the_squeezes_that_matter_are_left(
    looks_in_between: bool, opset: int, squeezes: int, tmp_path: Path
) -> None:
    policy = OneImage(looks_in_between)
    path = export_policy(policy, tmp_path / "policy.onnx", opset_version=opset)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds.count("Squeeze") == squeezes
    assert looks_in_between or kinds.index("Relu") == kinds.index("Conv") + 1
    image = np.random.default_rng(0).standard_normal((2, 12, 12)).astype(np.float32)
    with torch.no_grad():
        expected, _ = policy.step((torch.from_numpy(image),), ())
    got = Controller.load(path).step({"image": image})
    for name, value in zip(policy.outputs, expected, strict=True):
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)
