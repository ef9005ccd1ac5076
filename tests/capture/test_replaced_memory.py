"""Assignments to `.data` and `set_()` give a tensor other memory; the file computes what torch does then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.capture.capture import capture
from exploy.diagnosis.finding import FindingKind
from exploy.errors import CaptureError, DataDependentError
from exploy.exporter.core.components import Memory
from tests.support.builds import BUILDS, Body, assert_found, assert_refused, assert_sound, build, name_of
from tests.support.environments import assert_agrees, make_actor
from tests.support.masked_code import Masked

Code = Callable[[Masked], torch.Tensor]


def assigned(env: Masked) -> torch.Tensor:
    env.buffer.data = 0.5 * env.buffer + env.x
    return env.buffer + env.y


def written(env: Masked) -> torch.Tensor:
    env.buffer.data[:] = 0.5 * env.buffer + env.x
    env.buffer.data += 1
    env.buffer.data.clamp_(-1, 1)
    env.ring.data[0].copy_(env.x)
    return env.buffer + env.ring.data.sum(0) + env.y


def seen_by_old_views(env: Masked) -> torch.Tensor:
    """A view that was made before keeps the old memory."""
    view = env.buffer[:, :2]
    env.buffer.data = env.x * 2
    view += 5
    env.buffer[:, 3] = 1
    return torch.cat([view, env.buffer[:, 2:]], -1) + env.y


def shared_with_the_value(env: Masked) -> torch.Tensor:
    value = 0.5 * env.buffer + env.x
    env.buffer.data = value
    value += 1
    env.buffer.mul_(2)
    return env.buffer + value + env.y


def twice(env: Masked) -> torch.Tensor:
    env.buffer.data = env.buffer + env.x
    env.buffer.data = env.buffer * 0.5
    return env.buffer + env.y


def set_to(env: Masked) -> torch.Tensor:
    env.buffer.set_(0.5 * env.buffer + env.x)  # type: ignore[call-overload]
    return env.buffer + env.y


def results_and_constants(env: Masked) -> torch.Tensor:
    result, literal = env.x + 1, torch.zeros(3, 4)
    result.data, literal.data = env.weights[:3], env.y * 2
    return result * env.x + literal


def weights(env: Masked) -> torch.Tensor:
    env.weights.data = env.weights * 1.0
    return env.x @ env.weights + env.y


FOLLOWED: dict[str, Code] = {
    item.__name__: item
    for item in (
        seen_by_old_views,
        assigned,
        written,
        shared_with_the_value,
        twice,
        set_to,
        results_and_constants,
        weights,
    )
}


@pytest.mark.matrix
@pytest.mark.parametrize("code", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_the_file_agrees(code: Code, tmp_path: Path):
    assert_agrees(Masked(code), make_actor(4), tmp_path)


@pytest.mark.parametrize("code", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_tensors_have_their_memory_back_after_a_capture(code: Code):
    env = Masked(code)
    tensors = [env.x, env.y, env.buffer, env.ring, env.weights]
    before = [(item.data_ptr(), item.clone()) for item in tensors]
    capture(env, make_actor(4).eval())
    assert [item.data_ptr() for item in tensors] == [address for address, _ in before]
    assert all(torch.equal(item, value) for item, (_, value) in zip(tensors, before, strict=True))


class Assigning(Body):
    """Filters velocities by assigning to .data, in both stages."""

    def setup(self) -> None:
        self.filtered = torch.zeros(1, 2)
        self.last = torch.nn.Parameter(torch.zeros(1, 2), requires_grad=False)

    def components(self) -> list[Any]:
        return [
            *super().components(),
            Memory("filtered", lambda: self.filtered),
            Memory("last", lambda: self.last),
        ]

    def observe(self) -> torch.Tensor:
        self.filtered.data = 0.5 * self.filtered + self.vel
        return torch.cat([self.pos + self.last, self.filtered], -1)

    def accept(self, actions: torch.Tensor) -> None:
        self.last.data = actions.clone()
        self.last.data.clamp_(-1, 1)
        self.targets.data[:] = self.last

    def restart(self) -> None:
        super().restart()
        self.filtered.data = torch.zeros(1, 2)
        self.last.data.zero_()


class Forgotten(Assigning):
    """The filter is not registered."""

    def components(self) -> list[Any]:
        return [item for item in super().components() if item.name != "filtered"]


@pytest.mark.expensive
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    assert_sound(build(kind, Assigning), make_actor(4), tmp_path, steps=100)


@pytest.mark.expensive
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_a_memory_that_is_not_registered_is_found(kind: type[Any], tmp_path: Path):
    path = f"{BUILDS[kind]}.filtered"
    assert_found(build(kind, Forgotten), make_actor(4), FindingKind.MISSING_MEMORY, path)
    assert_refused(build(kind, Forgotten), make_actor(4), tmp_path, path)


def test_a_part_of_other_memory_is_refused_with_its_line():
    def part(env: Masked) -> torch.Tensor:
        env.buffer.set_(env.weights, 0, (3, 4), (1, 0))  # type: ignore[call-overload]
        return env.buffer + env.x

    with pytest.raises(DataDependentError, match=rf"{Path(__file__).name}:\d+ \(in part\).*copy_"):
        capture(Masked(part), make_actor(4).eval())


def test_the_storage_of_a_traced_tensor_is_refused_with_its_line():
    def storage(env: Masked) -> torch.Tensor:
        env.buffer.set_((env.x * 2).untyped_storage())
        return env.buffer

    with pytest.raises(DataDependentError, match=rf"{Path(__file__).name}:\d+ \(in storage\)"):
        capture(Masked(storage), make_actor(4).eval())


def test_swapped_tensors_are_refused_with_their_line():
    def swapped(env: Masked) -> torch.Tensor:
        torch.utils.swap_tensors(env.buffer, env.x)
        return env.buffer

    with pytest.raises(CaptureError, match=rf"{Path(__file__).name}:\d+ \(in swapped\)"):
        capture(Masked(swapped), make_actor(4).eval())
