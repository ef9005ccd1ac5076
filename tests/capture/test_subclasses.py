"""Tensors of other classes are followed: plain subclasses, those that libraries define, and those that wrap others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensordict import MemoryMappedTensor, TensorDict
from torch.utils._pytree import tree_map

from exploy.capture.capture import capture
from exploy.errors import ComponentError, DataDependentError, InvalidEnvironmentError
from exploy.exporter.core.components import Memory
from tests.support.builds import BUILDS, Body, assert_sound, build, name_of
from tests.support.environments import assert_agrees, make_actor
from tests.support.masked_code import Masked

Code = Callable[[Masked], torch.Tensor]


class InFrame(torch.Tensor):
    """Values that know the frame they are in, and hand it on."""

    frame = "world"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        frames = [item.frame for item in args if isinstance(item, InFrame)]
        if isinstance(result, InFrame) and frames:
            result.frame = frames[0]
        return result


class Plain(torch.Tensor):
    """A subclass that adds nothing."""


class Unpointed(torch.Tensor):
    """A subclass that does not give away its address, and returns subclasses from everything."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func is not torch.Tensor.data_ptr
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result.as_subclass(cls) if isinstance(result, torch.Tensor) else result


class Weight(torch.nn.Parameter):
    """A parameter of an own class."""


class Quantised(torch.Tensor):
    """Small integers with a scale, which operators see as floats; it has no memory of its own."""

    @staticmethod
    def __new__(cls, stored: torch.Tensor, scale: float) -> "Quantised":
        return torch.Tensor._make_wrapper_subclass(cls, stored.shape, dtype=torch.float32)

    def __init__(self, stored: torch.Tensor, scale: float):
        self.stored, self.scale = stored, scale

    @classmethod
    def of(cls, values: torch.Tensor) -> "Quantised":
        return cls((values * 50).round().clamp(-128, 127).to(torch.int8), 1 / 50)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        def values(item: Any) -> Any:
            return item.stored.float() * item.scale if isinstance(item, Quantised) else item

        return func(*tree_map(values, args), **tree_map(values, kwargs or {}))


class Secret(torch.Tensor):
    """Computes where nothing can look on."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        with torch._C._DisableTorchDispatch():
            return func(*args, **(kwargs or {}))


def in_frame(values: torch.Tensor, frame: str) -> torch.Tensor:
    result = values.as_subclass(InFrame)
    result.frame = frame
    return result


def frames(env: Masked) -> torch.Tensor:
    turned = in_frame(env.x, "body") * 2 + env.y
    turned[:, 0] += 1
    assert turned.frame == "body"  # type: ignore[attr-defined]
    return turned


def masks(env: Masked) -> torch.Tensor:
    z = env.x.as_subclass(Plain).clone()
    mask = z > 0
    z[mask] = z[mask] * 2
    if (env.y > 0).any():
        z[env.y > 0] = 0.5
    return z


def tensordicts(env: Masked) -> torch.Tensor:
    state = TensorDict({"x": env.x, "inner": {"y": env.y}}, batch_size=len(env.x))
    state["sum"] = state["x"] + state["inner", "y"]
    state *= 2
    return torch.cat([state["sum"][:, :2], (state + 1).exp().clamp(max=9.0)["x"][:, 2:]], -1)


def quantised_weights(env: Masked) -> torch.Tensor:
    return torch.nn.functional.linear(env.x + env.y, env.weights)


def quantised_values(env: Masked) -> torch.Tensor:
    return Quantised.of(env.x) * 2 + env.y


FOLLOWED: dict[str, Code] = {item.__name__: item for item in (frames, masks, tensordicts, quantised_values)}
CLASSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda item: item.as_subclass(Plain),
    "with a frame": lambda item: in_frame(item, "body"),
    "without an address": lambda item: item.as_subclass(Unpointed),
    "tensordict": MemoryMappedTensor.from_tensor,
}


@pytest.mark.matrix
@pytest.mark.parametrize("code", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_values_of_other_classes_are_followed(code: Code, tmp_path: Path):
    assert_agrees(Masked(code), make_actor(4), tmp_path)


def remembered(env: Masked) -> torch.Tensor:
    env.buffer[:] = 0.5 * env.buffer + env.x
    env.count += 1
    return env.buffer @ env.weights + env.y


def rebound(env: Masked) -> torch.Tensor:
    env.buffer = 0.5 * env.buffer + env.x
    return env.buffer @ env.weights + env.y


@pytest.mark.matrix
@pytest.mark.parametrize("code", [remembered, rebound])
@pytest.mark.parametrize("kind", CLASSES.values(), ids=CLASSES.keys())
def test_components_and_constants_may_be_of_other_classes(kind: Any, code: Code, tmp_path: Path):
    env = Masked(code)
    env.x, env.buffer, env.weights = kind(env.x), kind(env.buffer), kind(env.weights)
    before = env.buffer, env.weights
    assert_agrees(env, make_actor(4), tmp_path)
    assert env.weights is before[1]
    if code is remembered:
        assert env.buffer is before[0]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [Weight, Quantised.of])
def test_weights_may_be_of_other_classes(kind: Any, tmp_path: Path):
    env = Masked(quantised_weights)
    env.weights = kind(env.weights)
    assert_agrees(env, make_actor(4), tmp_path)


class Framed(Body):
    """Its state and targets are in frames, and its memory is a filter."""

    def setup(self) -> None:
        self.pos = in_frame(self.pos, "world")
        self.filtered = in_frame(torch.zeros(1, 2), "body")

    def components(self) -> list[Any]:
        return [*super().components(), Memory("filtered", lambda: self.filtered)]

    def observe(self) -> torch.Tensor:
        self.filtered = 0.5 * self.filtered + self.vel.as_subclass(Plain).as_subclass(InFrame)
        return torch.cat([self.pos, self.filtered], -1)

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = in_frame(actions, "body").clamp(-1, 1)

    def restart(self) -> None:
        super().restart()
        self.filtered = in_frame(torch.zeros(1, 2), "body")


@pytest.mark.expensive
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    assert_sound(build(kind, Framed), make_actor(4), tmp_path, steps=100)


REFUSED: dict[str, Code] = {
    "a number": lambda env: env.x * env.y.as_subclass(Plain).sum().item(),
    "an array": lambda env: env.x * float(in_frame(env.y, "body").numpy().sum()),
    "a secret": lambda env: env.x.as_subclass(Secret) * env.y,
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED.keys())
def test_what_leaves_torch_is_refused_with_its_line(code: Code):
    with pytest.raises(DataDependentError, match=rf"{Path(__file__).name}:\d+ \(in <lambda>\)"):
        capture(Masked(code), make_actor(4).eval())


def test_values_that_leave_torch_inside_of_a_class_are_refused_with_the_line_that_uses_it():
    class Scaled(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                factor = float(args[0].as_subclass(torch.Tensor).numpy().sum()) if func is torch.Tensor.mul else 1
                return func(*args, **(kwargs or {})) * factor

    def scaled(env: Masked) -> torch.Tensor:
        return env.x.as_subclass(Scaled) * env.y

    with pytest.raises(DataDependentError, match=rf"{Path(__file__).name}:\d+ \(in scaled\).*numpy"):
        capture(Masked(scaled), make_actor(4).eval())


def test_attributes_of_tensors_are_as_before_after_a_capture():
    def renamed(env: Masked) -> torch.Tensor:
        env.buffer.frame = "body"  # type: ignore[attr-defined]
        env.buffer += env.x
        return env.buffer + env.y

    env = Masked(renamed)
    env.buffer = in_frame(env.buffer, "world")
    capture(env, make_actor(4).eval())
    assert env.buffer.frame == "world"  # type: ignore[attr-defined]


def test_ports_need_memory_of_their_own():
    env = Masked(lambda env: env.x * 2 + env.y)
    env.x = Quantised.of(env.x)
    with pytest.raises(ComponentError, match=r"Input\('x'\) is a Quantised without memory"):
        capture(env, make_actor(4).eval())
    with pytest.raises(InvalidEnvironmentError, match="is a Quantised without memory"):
        capture(Masked(lambda env: Quantised.of(env.x)), make_actor(4).eval())
