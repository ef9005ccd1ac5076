"""The torch backends have the same ports, memories and checks as ONNX files, with the same controller."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exploy import export
from exploy.driver.policy_export import export_policy
from exploy.errors import BackendError, ContractError, DataDependentError, SignatureError
from exploy.runtime import Controller
from tests.driver.test_policy_export import Recurrent
from tests.support.command_line import FACTORIES, assert_fails, run
from tests.support.environments import make_actor
from tests.support.files import robot_inputs
from tests.support.robot import Robot


def exported(folder: Path, backend: str, **options: Any) -> Path:
    return export(Robot(), make_actor(13, 3), folder / "policy", backend=backend, strict=False, **options).path


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("onnx"), "onnx")


@pytest.fixture(scope="module")
def torch_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("torch"), "torch_export")


@pytest.fixture(scope="module")
def compiled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("compiled"), "aot_inductor")


@pytest.mark.parametrize("file", ["torch_file", pytest.param("compiled_file", marks=pytest.mark.expensive)])
def test_a_file_for_torch_runs_like_the_onnx_file(file: str, onnx_file: Path, request: pytest.FixtureRequest) -> None:
    """Run both rates, memories and resets with all guards enabled."""
    path = request.getfixturevalue(file)
    assert path.name == "policy.pt2"
    reference = Controller.load(onnx_file)
    if file == "compiled_file":
        with pytest.raises(SignatureError, match=r"libraries of AOTInductor.*allow_code=True"):
            Controller.load(path)
        assert run("verify", path).returncode == 2 and run("verify", path, "--allow-code").returncode == 0
    controller = Controller.load(path, allow_code=file == "compiled_file")
    assert controller.selftest() == reference.selftest() == 12
    for ours, theirs in ((controller.contract.inputs, reference.contract.inputs),):
        assert [(port.name, port.dtype, port.shape, port.kind, port.names, port.limits) for port in ours] == [
            (port.name, port.dtype, port.shape, port.kind, port.names, port.limits) for port in theirs
        ]
    assert controller.contract.memories == reference.contract.memories
    assert controller.contract.sub_step_inputs == reference.contract.sub_step_inputs
    assert controller.contract.decimation == reference.contract.decimation
    for tick in range(200):
        if tick in (37, 101):
            controller.reset()
            reference.reset()
        expected, got = (item.step(robot_inputs(tick)) for item in (reference, controller))
        assert list(got) == list(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5, err_msg=f"{name} at {tick}")


def test_the_backend_is_found_from_the_file_and_torch_is_imported_only_then(onnx_file: Path, torch_file: Path) -> None:
    code = """
import sys
from exploy.runtime import Controller
Controller.load({!r}).selftest()
assert "torch" not in sys.modules
Controller.load({!r}).selftest()
assert "torch" in sys.modules
"""
    source = code.format(str(onnx_file), str(torch_file))
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_without_torch_the_file_says_what_it_needs(torch_file: Path) -> None:
    code = f"""
import sys
sys.modules["torch"] = None
from exploy.runtime import Controller
Controller.load({str(torch_file)!r})
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "ContractError: The file is for torch, which cannot be imported" in result.stderr


def test_a_policy_alone_is_exported_for_any_number_of_robots(tmp_path: Path) -> None:
    path = export_policy(
        Recurrent(), tmp_path / "policy", backend="torch_export", dynamic_batch=True, obs_names=list("abcd"), rate_hz=50
    )
    assert path.name == "policy.pt2"
    controller = Controller.load(path, sizes={"batch": 6})
    assert [(port.name, port.shape) for port in controller.contract.outputs] == [
        ("actions", ("batch", 2)),
        ("h_out", (1, "batch", 8)),
        ("c_out", (1, "batch", 8)),
    ]
    policy, generator = Recurrent(), torch.Generator().manual_seed(0)
    states = tuple(state.initial(6) for state in policy.states)
    for _ in range(50):
        obs = torch.randn(6, 4, generator=generator)
        with torch.no_grad():
            (expected,), states = policy.step((obs,), states)
        np.testing.assert_allclose(controller.step({"obs": obs.numpy()})["actions"], expected, atol=1e-5)


def test_operators_with_options_as_text_are_plain(tmp_path: Path) -> None:
    """Archives are checked for text that torch would run as code; the equation of einsum is none."""

    class Options(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(13, 3))
            self.attention = torch.nn.MultiheadAttention(3, 1, batch_first=True)

        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            found = torch.einsum("bi,ij->bj", obs, self.weight)
            found = torch.nn.functional.pad(found[None], (1, 1), mode="reflect")[0][:, 1:4]
            found = torch.nn.functional.gelu(torch.div(found, 0.5, rounding_mode="floor"), approximate="tanh")
            mixed = self.attention(found[None], found[None], found[None])[0][0]
            return torch.stft(mixed, 2, 1, return_complex=False, center=False).sum() * 0 + mixed

    path = export(Robot(), Options(), tmp_path / "policy.pt2", strict=False).path
    assert Controller.load(path).selftest() == 12


def test_the_command_line_knows_such_files(torch_file: Path, onnx_file: Path) -> None:
    assert "torch_export" in run("inspect", torch_file).stdout
    assert "agrees: 12 ticks" in run("verify", torch_file).stdout
    assert "The interface is the same" in run("diff", onnx_file, torch_file).stdout
    assert run("bench", torch_file, "--ticks", 20).returncode == 0
    for command in (["verify", torch_file, f"{FACTORIES}:robot"], ["view", torch_file, "--no-browser"]):
        assert_fails(run(*command), "takes ONNX files, and this one is for torch_export")


def test_a_changed_file_is_refused(torch_file: Path) -> None:
    data = torch_file.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            contents = old.read(name)
            is_weight = name.endswith("weight_0")
            new.writestr(name, bytes([contents[0] ^ 1]) + contents[1:] if is_weight else contents)
    with pytest.raises(ContractError, match="was changed after its export"):
        Controller.load(buffer.getvalue())
    with pytest.raises(ContractError, match=r"damaged or truncated|no contracts"):
        Controller.load(data[: len(data) // 2])
    without = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(without, "w") as new:
        for name in old.namelist():
            if not name.endswith("exploy.contract"):
                new.writestr(name, old.read(name))
    with pytest.raises(ContractError, match="no contracts"):
        Controller.load(without.getvalue())


def test_what_no_file_can_hold_is_refused_as_ever(tmp_path: Path) -> None:
    class Branching(torch.nn.Module):
        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            return obs[:, :3] if obs.sum() > 0 else -obs[:, :3]

    with pytest.raises(DataDependentError, match=r"test_torch_backends\.py"):
        export(Robot(), Branching(), tmp_path / "out" / "policy.pt2")
    with pytest.raises(BackendError, match=r"Unknown backend 'tensorrt'\. Available: onnx, torch_export, aot"):
        exported(tmp_path / "out", "tensorrt")
    with pytest.raises(BackendError, match="cannot be used: TypeError"):
        exported(tmp_path / "out", "torch_export", opset_version=20)
    assert not (tmp_path / "out").exists()
