"""The ring buffers of Isaac Lab 2.3 and 3.0, with the substitutes for them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import exploy
from exploy.diagnosis.finding import FindingKind
from exploy.errors import SubstituteError
from exploy.exporter.core.components import Input, Memory, Output
from exploy.simulators.isaaclab_substitutes import buffer_substitutes
from exploy.simulators.ring_buffers import ShiftingBufferOfIsaacLab2, as_ring, in_order_of_time, random_call
from exploy.verify.substitute_trials import try_substitute
from exploy.verify.watched_calls import WatchedCall, functions_of
from tests.support.builds import BUILDS, Body, Hooked, assert_sound, build, name_of
from tests.support.checking import check
from tests.support.environments import make_actor

SOURCES = Path(sys.prefix) / "isaaclab-2.3" / "isaaclab" / "source" / "isaaclab" / "isaaclab"


def buffers_of_2_3() -> ModuleType:
    """The package of buffers of Isaac Lab 2.3, alone: the rest of it needs Isaac Sim."""
    name, folder = "buffers_of_isaaclab_2_3", SOURCES / "utils" / "buffers"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def buffers_of_3_0() -> ModuleType:
    return importlib.import_module("isaaclab.utils.buffers")


VERSIONS = {"2.3": buffers_of_2_3, "3.0": buffers_of_3_0}


class Buffered(Body):
    """Observes a history of its positions and its delayed velocities."""

    version = "2.3"

    def setup(self) -> None:
        buffers: Any = VERSIONS[self.version]()
        self.history = buffers.CircularBuffer(3, 1, "cpu")
        self.history.append(self.pos)
        self.delay = buffers.DelayBuffer(2, 1, "cpu")
        self.delay.set_time_lag(2)
        self.delay.compute(self.vel)

    @property
    def delay_frames(self) -> Any:
        """What holds the frames of the delay: a CircularBuffer in 2.3, the delay itself in 3.0."""
        return self.delay._circular_buffer if self.version == "2.3" else self.delay

    def components(self) -> list[Any]:
        return [
            Input("pos", lambda: self.pos),
            Input("vel", lambda: self.vel),
            Output("targets", lambda: self.targets),
            Memory("history", lambda: self.history._buffer),
            Memory("history_pushes", lambda: self.history._num_pushes),
            Memory("delay", lambda: self.delay_frames._buffer),
            Memory("delay_pushes", lambda: self.delay_frames._num_pushes),
        ]

    def observe(self) -> torch.Tensor:
        self.history.append(self.pos)
        return torch.cat([self.history.buffer.flatten(1)[:, :2], self.delay.compute(self.vel)], -1)

    def restart(self) -> None:
        super().restart()
        self.history.reset([0])
        self.delay.reset()


class Buffered3(Buffered):
    version = "3.0"


def state_of(env: Any) -> list[Any]:
    """The code of the class, and the state of the history with the identity of its tensor."""
    ring = env.body.history
    functions: list[Any] = [item.fget if isinstance(item, property) else item for item in vars(type(ring)).values()]
    codes = [item.__code__ for item in functions if hasattr(item, "__code__")]
    flags = [value for value in vars(ring).values() if isinstance(value, bool | int)]
    return [codes, flags, id(ring._buffer), ring._buffer.tolist()]


def with_substitute(kind: type[Any], body: type[Buffered]) -> Any:
    env = build(kind, body, warm=4)
    env.context_manager().add_substitutes(buffer_substitutes(VERSIONS[body.version]()))
    return env


@pytest.mark.matrix(2)
@pytest.mark.parametrize("body", [Buffered, Buffered3])
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_environments_of_all_builds_are_sound(kind: type[Any], body: type[Buffered], tmp_path: Path):
    assert_sound(with_substitute(kind, body), make_actor(4), tmp_path, steps=100)


@pytest.mark.parametrize("body", [Buffered, Buffered3])
def test_an_export_lists_the_substitute_and_takes_it_back(body: type[Buffered], tmp_path: Path):
    env = with_substitute(Hooked, body)
    before = state_of(env)
    used = exploy.export(env, make_actor(4), tmp_path / "policy.onnx", strict=False).contract.substitutes or ()
    names = ["CircularBuffer"] if body is Buffered else ["CircularBuffer", "DelayBuffer"]
    assert [item.original.rpartition(".")[2] for item in used] == names
    assert all(item.largest_error == 0.0 for item in used)
    assert state_of(env) == before


def test_without_a_substitute_the_pointer_of_2_3_is_found():
    errors = check(build(Hooked, Buffered, warm=4), make_actor(4)).errors
    assert any(item.kind is FindingKind.PYTHON_STATE and item.tensor.endswith("_pointer") for item in errors), errors


class StaysInPlace(ShiftingBufferOfIsaacLab2):
    """The planted error: the oldest frame stays."""

    def append(self: Any, data: torch.Tensor) -> None:
        self._pointer = (self._pointer + 1) % self.max_length
        self._buffer[-1] = data
        self._num_pushes += 1

    buffer, __getitem__ = ShiftingBufferOfIsaacLab2.buffer, ShiftingBufferOfIsaacLab2.__getitem__


def test_a_planted_error_is_refused_with_its_line(tmp_path: Path):
    env, ring = build(Hooked, Buffered, warm=4), buffers_of_2_3().CircularBuffer
    env.context_manager().add_substitute(
        exploy.substitute(ring, StaysInPlace, from_original=in_order_of_time, to_original=as_ring)
    )
    before = state_of(env)
    with pytest.raises(SubstituteError, match=r"StaysInPlace does not do what .*CircularBuffer does") as raised:
        exploy.export(env, make_actor(4), tmp_path / "policy.onnx", strict=False)
    line = StaysInPlace.append.__code__.co_firstlineno
    assert f"{__file__}:{line} (in append)" in str(raised.value) and not list(tmp_path.iterdir())
    assert state_of(env) == before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("shape", [(2, 3), (5, 2, 2)])
@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("frames", [1, 4, 11])
def test_buffers_of_all_lengths_and_shapes_are_equal(version: str, shape: tuple[int, ...], length: int, frames: int):
    buffers: Any = VERSIONS[version]()
    buffer = buffers.CircularBuffer(length, shape[0], "cpu")
    assert_equal(buffer, shape, frames)


@pytest.mark.parametrize("dim", [1, 2, -1])
def test_stacked_buffers_of_3_0_are_equal(dim: int):
    assert_equal(buffers_of_3_0().CircularBuffer(3, 4, "cpu", stack_dim=dim), (4, 2, 3), 5)


@pytest.mark.parametrize("hold_prob", [None, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("lag", [0, 2])
def test_delays_of_3_0_are_equal(hold_prob: float | None, lag: int):
    torch.manual_seed(0)
    delay = buffers_of_3_0().DelayBuffer(3, 4, "cpu", min_lag=1, hold_prob=hold_prob)
    if hold_prob is None:
        delay.set_time_lag(torch.tensor([lag, 3, 1, 0]))
    for _ in range(5):
        delay.compute(torch.randn(4, 2))
    item = buffer_substitutes(buffers_of_3_0())[1]
    compute = functions_of(item)["compute"]
    looks = [
        WatchedCall(item, "compute", compute, (delay, torch.ones(4, 2)), {"update_history": new}) for new in (1, 0)
    ]
    assert try_substitute(item, looks).largest_error == 0.0


def assert_equal(buffer: Any, shape: tuple[int, ...], frames: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(frames):
        buffer.append(torch.randn(shape, generator=generator))
    item = next(item for item in buffer_substitutes(sys.modules[type(buffer).__module__.rpartition(".")[0]]))
    assert item.random_call is random_call
    calls = [WatchedCall(item, "append", functions_of(item)["append"], (buffer, torch.ones(shape)), {})]
    assert try_substitute(item, calls).largest_error == 0.0
