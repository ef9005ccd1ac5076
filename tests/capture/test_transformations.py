"""Functions that torch transforms are followed: vmap, and the derivatives of torch.func."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.capture.capture import capture
from exploy.errors import CaptureError, DataDependentError
from exploy.exporter.core.components import Memory
from tests.support.builds import BUILDS, Body, assert_sound, build, name_of
from tests.support.environments import assert_agrees, make_actor
from tests.support.masked_code import Masked

Code = Callable[[Masked], torch.Tensor]


def energy(row: torch.Tensor) -> torch.Tensor:
    return torch.sin(row) * row.sum()


made_before = torch.vmap(energy)


def with_closure(env: Masked) -> torch.Tensor:
    return torch.vmap(lambda row: row * env.y.sum() + env.buffer[0])(env.x) + env.y


def batched_jacobians(env: Masked) -> torch.Tensor:
    jacobians = torch.vmap(torch.func.jacrev(energy))(env.x)
    return (jacobians @ env.y[:, :, None])[..., 0]


def two_jacobians(env: Masked) -> torch.Tensor:
    first, second = torch.func.jacrev(lambda row: (row.sin(), row[:2] * row.sum()))(env.x[0])
    return env.y @ first + second.sum(0)


FOLLOWED: dict[str, Code] = {
    "the jacobian of each row": batched_jacobians,
    "vmap over a closure": with_closure,
    "vmap made before the export": lambda env: made_before(env.x) + env.y,
    "vmap over two arguments": lambda env: torch.vmap(lambda a, b: torch.linalg.cross(a[:3], b[:3]).sum() * a)(
        env.x, env.y
    ),
    "two jacobians at once": two_jacobians,
    "a jacobian forwards": lambda env: env.y @ torch.func.jacfwd(energy)(env.x[0]),
    "a gradient": lambda env: torch.func.grad(lambda x: (x**3).sum())(env.x) + env.y,
}


@pytest.mark.matrix
@pytest.mark.parametrize("code", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_the_file_agrees(code: Code, tmp_path: Path):
    assert_agrees(Masked(code), make_actor(4), tmp_path, tolerance=1e-4)


class Transformed(Body):
    """Damps by the jacobian of its energy, with a memory."""

    def setup(self) -> None:
        self.damping = torch.zeros(1, 2)

    def components(self) -> list[Any]:
        return [*super().components(), Memory("damping", lambda: self.damping)]

    def observe(self) -> torch.Tensor:
        jacobian = torch.func.jacrev(energy)(self.pos[0])
        self.damping[:] = 0.5 * self.damping + self.vel @ jacobian
        return torch.cat([torch.vmap(energy)(self.pos), self.damping], -1)

    def restart(self) -> None:
        super().restart()
        self.damping[:] = 0


@pytest.mark.expensive
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    assert_sound(build(kind, Transformed), make_actor(4), tmp_path, steps=100)


REFUSED: dict[str, Code] = {
    "a branch": lambda env: torch.vmap(lambda row: row if row.sum() > 0 else -row)(env.x),
    "a number": lambda env: torch.vmap(lambda row: row * env.y[0, 0].item())(env.x),
    "an array": lambda env: torch.vmap(lambda row: row * float(env.y.numpy().sum()))(env.x),
}


@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED.keys())
def test_values_do_not_leave_torch_inside_of_a_transformation(code: Code):
    with pytest.raises(DataDependentError, match=rf"{Path(__file__).name}:\d+ \(in <lambda>\)"):
        capture(Masked(code), make_actor(4).eval())


def test_a_derivative_that_was_made_before_the_export_is_refused_with_its_line():
    jacobian = torch.func.grad(lambda x: (x**3).sum())
    with pytest.raises(CaptureError, match=rf"{Path(__file__).name}:\d+ .*vmap"):
        capture(Masked(lambda env: jacobian(env.x)), make_actor(4).eval())
