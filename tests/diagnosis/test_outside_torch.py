"""Memory that the pipeline writes without torch is no Memory to register: it is said who writes it."""

import ctypes

import numpy as np
import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.errors import VerificationError
from exploy.exporter.core.components import Input
from tests.diagnosis.test_faults import Robot
from tests.support.checking import check
from tests.support.environments import make_actor


class CountedByNumpy(Robot):
    def setup(self):
        self.count = np.zeros((1, 4), np.float32)

    def observe(self):
        self.count += 1.0
        return super().observe() + torch.from_numpy(self.count)


class CopiedByExtension(Robot):
    """A C library writes a buffer that a tensor shares."""

    def setup(self):
        self.frame = torch.zeros(1, 4)
        self.sensor = (ctypes.c_float * 4)(1.0, 2.0, 3.0, 4.0)

    def observe(self):
        ctypes.memmove(self.address, self.sensor, 16)
        return super().observe() + self.frame

    def move(self):
        super().move()
        self.sensor[0] += 1.0

    @property
    def address(self):
        with torch._C.DisableTorchFunction():
            return self.frame.data_ptr()


class FilledThroughView(Robot):
    """The array is a view of the memory of a tensor, as mujoco's qpos is of a buffer."""

    def setup(self):
        self.buffer = torch.zeros(1, 8)
        self.data = {"qpos": self.buffer.numpy()[:, 2:6]}
        self.ticks = 0

    def observe(self):
        self.ticks += 1
        self.data["qpos"][:] = np.sin(self.ticks)
        return super().observe() + self.buffer[:, 2:6]


class CountsRowsOfATable(Robot):
    """Looks alike: torch writes the counter, and any other number than those it has is no row of the table."""

    def setup(self):
        self.table, self.row = torch.arange(8.0)[:, None].repeat(1, 4), torch.zeros(1, dtype=torch.int64)

    def observe(self):
        observed = super().observe() + self.table[self.row]
        self.row = (self.row + 1) % 8
        return observed


class WrittenInStep(CountedByNumpy):
    """Looks alike: the simulator writes the array, and it is an Input."""

    def components(self):
        return [*super().components(), Input("count", lambda: torch.from_numpy(self.count))]

    def observe(self):
        return Robot.observe(self) + torch.from_numpy(self.count)

    def move(self):
        super().move()
        self.count += 1.0


@pytest.mark.parametrize(
    ("kind", "tensor"),
    [
        (CountedByNumpy, "env.count"),
        (CopiedByExtension, "env.frame"),
        (FilledThroughView, "env.data['qpos']"),
    ],
)
def test_memory_that_is_written_without_torch_is_called_so(kind, tensor):
    diagnosis = check(kind(), make_actor(4))
    found = [item for item in diagnosis.errors if item.kind is FindingKind.OUTSIDE_TORCH]
    assert [item.tensor for item in found] == [tensor], diagnosis
    assert "code outside of torch" in found[0].what and found[0].suggestion.startswith(f"# compute {tensor} with torch")
    assert not [item for item in diagnosis.errors if item.kind is FindingKind.MISSING_MEMORY]


def test_memory_that_step_writes_is_not_accused():
    diagnosis = check(WrittenInStep(), make_actor(4))
    assert diagnosis.ok, diagnosis


def test_a_counter_that_is_an_index_stays_within_its_table():
    diagnosis = check(CountsRowsOfATable(), make_actor(4))
    assert [(item.kind, item.tensor) for item in diagnosis.errors] == [(FindingKind.MISSING_MEMORY, "env.row")]


# -- Warp -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")
def test_an_export_infers_no_memory_from_it(tmp_path):
    env = CountedByNumpy()
    with pytest.raises(VerificationError, match=r"env\.count"):
        exploy.export(env, make_actor(4), tmp_path / "policy.onnx", infer_memory=True, strict=False)
    assert [item.name for item in env.context_manager().get_memory_components()] == []


@pytest.mark.filterwarnings("ignore::exploy.errors.ExployWarning")
def test_an_array_that_torch_writes_is_inferred(tmp_path):
    class CountedByTorch(CountedByNumpy):
        def observe(self):
            torch.from_numpy(self.count).add_(1.0)
            return Robot.observe(self) + torch.from_numpy(self.count)

    env = CountedByTorch()
    exploy.export(env, make_actor(4), tmp_path / "policy.onnx", infer_memory=True, strict=False)
    assert "count" in [item.name for item in env.context_manager().get_memory_components()]


@pytest.fixture(scope="module")
def wp():
    """Warp, if it is installed: its wheel is too large for the extra of the tests."""
    warp = pytest.importorskip("warp")
    warp.config.quiet = True
    return warp


def doubling(wp):
    """A robot whose observations a kernel computes."""
    matrix = wp.array2d(dtype=float)

    def double(x, y):
        i, j = wp.tid()
        y[i, j] = x[i, j] * 2.0

    double.__annotations__ = {"x": matrix, "y": matrix}
    kernel = wp.Kernel(double, key="double")

    class Doubling(Robot):
        def setup(self):
            self.x, self.y = (wp.zeros((1, 4), dtype=float, device="cpu") for _ in range(2))

        def read(self):
            return wp.to_torch(self.y)

        def observe(self):
            wp.to_torch(self.x)[:] = super().observe()
            wp.launch(kernel, dim=(1, 4), inputs=[self.x], outputs=[self.y], device="cpu")
            return self.read() * 1.0

    class KeepsTensors(Doubling):
        def setup(self):
            super().setup()
            self.tensor = wp.to_torch(self.y)

        def read(self):
            return self.tensor

    class LaunchesByKeyword(Doubling):
        def observe(self):
            wp.to_torch(self.x)[:] = Robot.observe(self)
            wp.launch(kernel=kernel, dim=(1, 4), inputs=[self.x, self.y], device="cpu")
            return self.read() * 1.0

    return [Doubling, KeepsTensors, LaunchesByKeyword]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a temporary folder of Warp
@pytest.mark.parametrize("build", [0, 1, 2])
def test_a_kernel_of_warp_and_its_arrays_are_named(wp, build):
    diagnosis = check(doubling(wp)[build](), make_actor(4))
    (finding,) = diagnosis.errors
    assert finding.kind is FindingKind.OUTSIDE_TORCH, diagnosis
    array = "env.tensor" if build == 1 else "env.y"
    assert f"the Warp kernel double(x: env.x, y: {array})" in finding.what
    assert "test_outside_torch.py" in finding.where and finding.where.endswith("(in observe)")
