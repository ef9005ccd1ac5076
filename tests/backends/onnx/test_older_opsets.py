"""Older opsets give the same numbers, or an error that names the unsupported operator."""

from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch

from exploy.backends.onnx.lowering import lower
from exploy.backends.onnx.older_opsets import OLDEST_OF_TORCH, in_older_opset
from exploy.backends.onnx.one_step import name_ports
from exploy.driver.policy_export import export_policy
from exploy.errors import LoweringError
from exploy.policy.capture import capture_policy
from exploy.policy.policy import BATCH, Policy, PolicyInput, Tensors

functional = torch.nn.functional


class Function(Policy):
    """A function of one input."""

    def __init__(self, name: str):
        super().__init__([PolicyInput("obs", (BATCH, 6))])
        self.name = name
        self.norm = torch.nn.LayerNorm(6)
        self.norm.weight.data = torch.linspace(0.5, 2.0, 6)
        self.norm.bias.data = torch.linspace(-1.0, 1.0, 6)

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        return (FUNCTIONS[self.name](self, inputs[0]),), ()


FUNCTIONS = {
    "layer norm": lambda self, x: self.norm(x),
    "layer norm over two dimensions": lambda self, x: functional.layer_norm(x.view(-1, 2, 3), (2, 3)),
    "gelu": lambda self, x: functional.gelu(x),
    "gelu by tanh": lambda self, x: functional.gelu(x, approximate="tanh"),
    "sums and means": lambda self, x: x.sum(1, keepdim=True) + x.mean(1, keepdim=True) * x.amax(1, keepdim=True),
    "parts": lambda self, x: torch.cat([part * k for k, part in enumerate(x.chunk(3, dim=1), 1)], dim=1),
    "uneven parts": lambda self, x: torch.cat(x.split([1, 2, 3], dim=1)[::-1], dim=1),
    "softmax": lambda self, x: x.view(-1, 2, 3).softmax(-1),
    "squeezed": lambda self, x: x.unsqueeze(1).unsqueeze(-1).squeeze(1).squeeze(-1) + 1.0,
    "double precision": lambda self, x: (x.double() / 3.0).clamp(-0.2, 0.3).float(),
    "comparisons": lambda self, x: torch.where(x <= 0.1, x, 0.0) + torch.where(x >= 0.5, 2.0 * x, 0.0),
    "argmax": lambda self, x: x.argmax(1),
}


@pytest.mark.matrix(5)
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions_keep_their_values(name: str) -> None:
    policy = Function(name)
    program = capture_policy(policy, dynamic_batch=True)
    lowered = lower(program, OLDEST_OF_TORCH, ir_version=8)
    name_ports(lowered, program)
    x = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    with torch.no_grad():
        (expected,), _ = policy.step((torch.from_numpy(x),), ())
    for opset in (11, 14):
        model = ir.to_proto(in_older_opset(lowered.clone(), opset))
        assert model.opset_import[0].version == opset
        session = onnxruntime.InferenceSession(model.SerializeToString())
        np.testing.assert_allclose(session.run(["actions"], {"obs": x})[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "opset", "message"),
    [
        (lambda self, x: x.view(-1, 2, 3).softmax(1), 11, "Softmax that is not over the last dimension"),
        (lambda self, x: x.triu(), 11, "Opset 11 was requested, but .* the operator Trilu is newer"),
        (lambda self, x: x, 5, "Opset 5 was requested, but 11 is the oldest"),
    ],
)
def test_what_an_opset_does_not_have_is_named(
    function: object, opset: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FUNCTIONS, "other", function)
    with pytest.raises(LoweringError, match=message):
        export_policy(Function("other"), tmp_path / "policy.onnx", opset_version=opset)
    assert list(tmp_path.iterdir()) == []
