"""Backends of other packages: one class, found by its entry point."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from exploy import export
from exploy.backends import registry
from exploy.backends.onnx.backend import OnnxBackend
from exploy.backends.registry import make_backend, names
from exploy.driver.policy_export import export_policy
from exploy.errors import BackendError, ContractError
from exploy.runtime import Controller, backends
from tests.driver.test_policy_export import Recurrent
from tests.support.environments import make_actor
from tests.support.files import robot_inputs
from tests.support.robot import Robot

ROOT = Path(__file__).parents[2]


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Write the metadata that pip installs for a package with this entry point."""
    shutil.copy(ROOT / "examples" / "openvino_backend.py", folder)
    metadata = folder / "a_backend-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a-backend\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[exploy.backends]\n{name} = {value}\n")
    monkeypatch.syspath_prepend(str(folder))


def test_the_openvino_example_exports_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    install(tmp_path, monkeypatch, "openvino", "openvino_backend:OpenVinoBackend")
    assert names() == ["onnx", "torch_export", "aot_inductor", "c", "openvino"]
    files = {
        backend: export(Robot(), make_actor(13, 3), tmp_path / f"{backend}.onnx", backend=backend, strict=False).path
        for backend in ("onnx", "openvino")
    }
    reference, controller = (Controller.load(path) for path in files.values())
    assert controller.contract.backend == "openvino" and controller.selftest() == 12
    for tick in range(100):
        if tick == 41:
            controller.reset()
            reference.reset()
        expected, got = (item.step(robot_inputs(tick)) for item in (reference, controller))
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5, err_msg=f"{name} at {tick}")
    alone = export_policy(Recurrent(), tmp_path / "alone", backend="openvino")
    assert Controller.load(alone).selftest() == 3


def test_a_file_of_a_backend_that_is_not_here_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openvino")
    with monkeypatch.context() as here:
        install(tmp_path, here, "openvino", "openvino_backend:OpenVinoBackend")
        path = export_policy(Recurrent(), tmp_path / "policy", backend="openvino")
    with pytest.raises(ContractError, match="for the backend 'openvino', which is not installed"):
        Controller.load(path)


def test_a_backend_can_be_registered_in_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(OnnxBackend):
        name = "mine"

    monkeypatch.setattr(backends, "REGISTERED", backends.REGISTERED | {})
    monkeypatch.setattr(registry, "REGISTERED", backends.REGISTERED)
    backends.register(Mine)
    assert isinstance(make_backend("mine", opset_version=18), Mine) and "mine" in names()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module:Backend", "'mine' of no_such_module:Backend cannot be used: ModuleNotFoundError"),
        ("pathlib:PurePath", "must be a subclass of Backend, got Pure"),
    ],
)
def test_entry_points_that_are_no_backends_are_refused(
    value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, "mine", value)
    with pytest.raises(BackendError, match=message):
        make_backend("mine")
