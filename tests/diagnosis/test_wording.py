"""What a finding says is about what the user has written and reads: line, element, index, name."""

import importlib.util
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from exploy.diagnosis.finding import FindingKind
from exploy.diagnosis.suggestion import name_from_attr_path
from tests.diagnosis.test_faults import OneColumnForgotten, Robot
from tests.support.checking import check
from tests.support.environments import make_actor

WRAPPER = '''
import torch

class Wrapped:
    """A tensor of the simulator behind a proxy, as in mjlab."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __getitem__(self, index):
        return self._tensor[index] * 1.0

    def __add__(self, other):
        return self._tensor + other

def rotated(wrapped, vector):
    return vector + wrapped._tensor
'''


@pytest.fixture(scope="module", params=["site-packages", "checkout"])
def library(request, tmp_path_factory):
    """A library of wrappers: installed, or a checkout of its source."""
    folder = tmp_path_factory.mktemp("library") / request.param
    folder.mkdir()
    file = folder / "sim_data.py"
    file.write_text(WRAPPER)
    spec = importlib.util.spec_from_file_location("sim_data", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sim_data"] = module
    spec.loader.exec_module(module)
    yield SimpleNamespace(**vars(module), is_installed=request.param == "site-packages")
    del sys.modules["sim_data"]


class Wrapping(Robot):
    """Reads a sensor through a wrapper."""

    def __init__(self, wrapped, read):
        self.imu, self.read = wrapped(torch.zeros(1, 4)), read
        super().__init__()

    def observe(self):
        return self.read(super().observe(), self.imu)

    def move(self):
        super().move()
        self.imu._tensor += 0.1


READS = {
    "by index": lambda library: lambda observed, imu: observed + imu[:],
    "by operator": lambda library: lambda observed, imu: imu + observed,
    "by function": lambda library: lambda observed, imu: library.rotated(imu, observed),
}


@pytest.mark.matrix
@pytest.mark.parametrize("read", READS)
def test_where_is_the_line_of_the_user_and_not_of_a_wrapper(library, read):
    if read == "by function" and not library.is_installed:
        pytest.skip("a function of a checkout is the user's own")
    (finding,) = check(Wrapping(library.Wrapped, READS[read](library)), make_actor(4)).errors
    assert finding.tensor == "env.imu._tensor"
    assert "test_wording.py" in finding.where
    assert 'name="imu"' in finding.suggestion


def test_an_environment_that_is_installed_itself_has_its_own_lines(library):
    if not library.is_installed:
        pytest.skip("about installed environments")
    code = "import torch\ndef read(observed, imu):\n    return observed + imu[:]\n"
    scope: dict = {}
    exec(compile(code, "/usr/lib/site-packages/terms.py", "exec"), scope)
    (finding,) = check(Wrapping(library.Wrapped, scope["read"]), make_actor(4)).errors
    assert "(in observe)" in finding.where  # the line of the user that called it


class ReadsOneColumn(Robot):
    def setup(self):
        self.state = torch.zeros(1, 6)

    def observe(self):
        return super().observe() + self.state[:, 3:4]

    def move(self):
        super().move()
        self.state += torch.arange(1, 7)


class ReadsByIndex(ReadsOneColumn):
    def observe(self):
        return Robot.observe(self) + self.state[:, torch.tensor([3, 3, 5, 5])]


class ReadsRows(ReadsOneColumn):
    def setup(self):
        self.state = torch.zeros(6, 1)

    def observe(self):
        return Robot.observe(self) + self.state[3]

    def move(self):
        Robot.move(self)
        self.state += torch.arange(1, 7).unsqueeze(-1)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [ReadsOneColumn, ReadsByIndex, ReadsRows])
def test_the_quoted_element_is_one_that_is_read(kind):
    (finding,) = check(kind(), make_actor(4)).errors
    index = {ReadsOneColumn: "[0, 0]", ReadsByIndex: "[0, 3]", ReadsRows: "[3, 0]"}[kind]
    assert finding.tensor == ("env.state[:, 3:4]" if kind is ReadsOneColumn else "env.state")
    assert f"element {index} was 4;" in finding.what or f"element {index} was 16;" in finding.what, finding.what


def test_an_index_is_that_of_the_slice_which_is_named():
    (finding,) = check(OneColumnForgotten(), make_actor(4)).errors
    assert finding.tensor == "env.state[:, 2:3]" and "element [0, 0] was" in finding.what


@pytest.mark.parametrize(
    ("attr_path", "name"),
    [
        ("env.robot.data.joint_pos._tensor", "joint_pos"),
        ("env.scene['imu'].cached_data", "imu"),
        ("env.sim.wp_arrays['qpos'].torch", "qpos"),
        ("env.buffers.values[2]", "buffers_2"),
        ("env.data", "data"),
        ("env.cache", "cache"),
        ("env.lag[1]", "lag_1"),
    ],
)
def test_a_suggested_name_says_what_a_thing_is(attr_path, name):
    assert name_from_attr_path(attr_path, set()) == name


class Sine(Robot):
    def observe(self):
        return torch.as_tensor(np.sin(super().observe()))


class NormOfNumpy(Robot):
    def observe(self):
        return super().observe() / np.linalg.norm(
            self.vel,
        )


class MathSine(Robot):
    def observe(self):
        return super().observe() * math.sin(self.pos[0, 0])


class Rounded(Robot):
    """No function of torch is named like it."""

    def observe(self):
        return super().observe() * float(self.pos[0, 0])


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (Sine, "# Use torch.sin() instead of np.sin()."),
        (NormOfNumpy, "# Use torch.linalg.norm() instead of np.linalg.norm()."),
        (MathSine, "# Use torch.sin() instead of math.sin()."),
        (Rounded, "# Use torch operations instead, for example torch.where()"),
    ],
)
def test_a_function_of_numpy_or_math_is_told_its_counterpart(kind, advice):
    finding = check(kind(), make_actor(4)).errors[0]
    assert finding.kind is FindingKind.CAPTURE_FAILED and finding.suggestion.startswith(advice), finding
    assert Path(finding.where.partition(":")[0]) == Path(__file__)
