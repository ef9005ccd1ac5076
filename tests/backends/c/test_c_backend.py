"""Environments and policies are exported as C: chosen by the suffix, verified as any file, refused with the line."""

import io
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from exploy import export
from exploy.backends.c import backend
from exploy.backends.c.backend import CBackend, without_folder
from exploy.backends.registry import backend_for
from exploy.driver.policy_export import export_policy
from exploy.errors import BackendError, CompilerError, LoweringError
from exploy.exporter.core.components import Input, Output
from exploy.runtime import Controller
from tests.driver.test_policy_export import Recurrent
from tests.support.c_files import PlainRobot
from tests.support.environments import TestEnvironment, make_actor
from tests.support.files import robot_inputs

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


def text_of(path: Path, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as file:
        return file.read(name).decode()


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c")
    return export(PlainRobot(), make_actor(13, 3), folder / "walk.c.zip", strict=False).path


def test_the_suffix_chooses_and_the_program_has_the_name_of_the_file(walk: Path) -> None:
    assert isinstance(backend_for("walk.c.zip"), CBackend)
    assert walk.name == "walk.c.zip" and "walk_tick(" in text_of(walk, "walk/walk.h")
    controller = Controller.load(walk, allow_code=True)
    assert controller.selftest() == 12 and controller.contract.decimation == 4
    assert np.isfinite(controller.step(robot_inputs())["joint_targets"]).all()


def test_another_name_can_be_given(tmp_path: Path) -> None:
    path = export(
        PlainRobot(), make_actor(13, 3), tmp_path / "2", backend="c", program_name="my walk", strict=False
    ).path
    assert path.name == "2.c.zip" and "my_walk_tick(" in text_of(path, "my_walk/my_walk.h")
    with pytest.raises(BackendError, match="program_name must be a name"):
        backend_for("x.c.zip", program_name="")


def test_comments_name_the_lines_of_the_environment_without_their_folder(walk: Path) -> None:
    source = text_of(walk, "walk/walk.c")
    assert "c_files.py:" in source and " in apply_actions */" in source
    assert os.fspath(Path(__file__).parents[3]) not in source
    assert without_folder("/home/a b/x-1.py:3 (in <lambda>)") == "x-1.py:3 in <lambda>"
    assert without_folder("C:\\x\\y.py:3 (in f)") == "y.py:3 in f" and without_folder("unknown location") == ""


def test_two_exports_give_the_same_bytes(walk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    paths = [tmp_path / str(number) / "walk.c.zip" for number in range(2)]
    first, second = (export(PlainRobot(), make_actor(13, 3), path, strict=False).path.read_bytes() for path in paths)
    assert first == second


def test_a_policy_alone_is_exported_with_its_memories(tmp_path: Path) -> None:
    class Simple(Recurrent):
        """Memories as in Recurrent, without its LSTM."""

        def step(self, inputs, states):
            (x,), (h, c) = inputs, states
            h = torch.tanh(h + x[:, :1])
            return (self.head(h.flatten(0, 1)) + c.flatten(0, 1)[:, :2],), (h, c + h)

    path = export_policy(Simple(), tmp_path / "policy", backend="c")
    assert path.name == "policy.c.zip"
    assert Controller.load(path, allow_code=True).selftest() == 3
    with pytest.raises(LoweringError, match=r"for one robot.*dynamic_batch"):
        export_policy(Simple(), tmp_path / "open", backend="c", dynamic_batch=True)
    assert not (tmp_path / "open.c.zip").exists()


class Noisy(TestEnvironment):
    """Draws a number in each policy step."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.y = torch.zeros(1, 4), torch.zeros(1, 2)
        self.context_manager().add_components([Input("x", lambda: self.x), Output("y", lambda: self.y)])

    def observe(self) -> torch.Tensor:
        return self.x * 1.0

    def apply_actions(self) -> None:
        self.y[:] = self.targets

    def move(self) -> None:
        self.x += self.noise(self.x)


class Dice(torch.nn.Module):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs[:, :2] + torch.randn_like(obs[:, :2])


def test_random_operators_are_refused_with_their_line_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(LoweringError, match=r"test_c_backend\.py:\d+ in forward: .*Random\w+ which draws random"):
        export(Noisy(), Dice(), tmp_path / "noisy.c.zip", strict=False, allow_random=True)
    assert list(tmp_path.iterdir()) == []


def test_a_sub_step_may_compute_nothing(tmp_path: Path) -> None:
    class Idle(Noisy):
        def process_actions(self, actions: torch.Tensor) -> None:
            self.y[:] = actions

        def apply_actions(self) -> None:
            pass

    path = export(Idle(), make_actor(4), tmp_path / "idle.c.zip", strict=False).path
    controller = Controller.load(path, allow_code=True)
    first = controller.step({"x": np.ones((1, 4), np.float32)})["y"]
    np.testing.assert_array_equal(controller.step({"x": np.zeros((1, 4), np.float32)})["y"], first)


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_compiler", lambda: None)
    with pytest.raises(CompilerError, match=r"pip install ziglang.*exploy compile"):
        export(PlainRobot(), make_actor(13, 3), tmp_path / "walk.c.zip", strict=False)
    assert list(tmp_path.iterdir()) == []
