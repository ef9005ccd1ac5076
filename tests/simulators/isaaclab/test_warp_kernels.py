"""A Warp kernel in the pipeline, which rotates gravity into the frame of the body, and torch code in its place."""

from pathlib import Path
from typing import Any

import pytest
import torch
import warp as wp

import exploy
from exploy.errors import SubstituteError
from exploy.exporter.core.components import Input, Output
from exploy.simulators.rotations import rotated, rotated_back
from tests.support.builds import BUILDS, Body, Hooked, assert_sound, build, name_of
from tests.support.checking import check
from tests.support.environments import make_actor

wp.config.log_level = wp.LOG_WARNING


@wp.kernel
def project_gravity(quaternion: wp.array(dtype=wp.quatf), gravity: wp.array(dtype=wp.vec3f)):  # type: ignore[valid-type]
    row = wp.tid()
    gravity[row] = wp.quat_rotate_inv(quaternion[row], wp.vec3f(0.0, 0.0, -1.0))


class Data:
    """State of a robot in arrays of Warp, some of it computed when it is read."""

    def __init__(self) -> None:
        self.quaternion = wp.array([[0.0, 0.0, 0.0, 1.0]], dtype=wp.quatf, device="cpu")
        self.gravity = wp.zeros(1, dtype=wp.vec3f, device="cpu")
        self.orientation = wp.to_torch(self.quaternion)
        self.shared_gravity = wp.to_torch(self.gravity)
        self.time, self.computed_at = 0.0, -1.0

    @property
    def projected_gravity(self) -> torch.Tensor:
        if self.computed_at < self.time:
            wp.launch(project_gravity, dim=1, inputs=[self.quaternion], outputs=[self.gravity], device="cpu")
            self.computed_at = self.time
        return self.shared_gravity


class Turning(Body):
    """Observes the direction of gravity and how much it leans; its state is turned by its actions."""

    def setup(self) -> None:
        self.data = Data()

    def components(self) -> list[Any]:
        return [
            Input("pos", lambda: self.pos),
            Input("vel", lambda: self.vel),
            Input("orientation", lambda: self.data.orientation),
            Output("targets", lambda: self.targets),
        ]

    def observe(self) -> torch.Tensor:
        return torch.cat([self.data.projected_gravity, self.pos[:, :1] + self.vel[:, :1]], -1)

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = actions + self.data.projected_gravity[:, :2]

    def move(self) -> None:
        super().move()
        turn = torch.cat([0.1 * self.vel, 0.2 * self.vel[:, :1], torch.ones(1, 1)], -1)
        axis, w = self.data.orientation[:, :3], self.data.orientation[:, 3:]
        product = torch.cat([w * turn[:, :3] + axis + torch.linalg.cross(axis, turn[:, :3]), w], -1)
        self.data.orientation[:] = product / product.norm(dim=-1, keepdim=True)
        self.data.time += 0.02

    def restart(self) -> None:
        super().restart()
        self.data.orientation[:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
        self.data.computed_at = -1.0


def gravity_in_torch(data: Any) -> torch.Tensor:
    data.shared_gravity[:] = rotated_back(data.orientation, torch.tensor([[0.0, 0.0, -1.0]]))
    data.computed_at = data.time
    return data.shared_gravity


def rotated_the_wrong_way(data: Any) -> torch.Tensor:
    data.shared_gravity[:] = rotated(data.orientation, torch.tensor([[0.0, 0.0, -1.0]]))
    data.computed_at = data.time
    return data.shared_gravity


def outdate(data: Any) -> None:
    data.computed_at = -1.0


def turning(kind: type[Any] = Hooked, replacement: Any = gravity_in_torch) -> Any:
    env = build(kind, Turning, warm=3)
    env.context_manager().add_substitute(exploy.substitute(Data.projected_gravity, replacement, prepare=outdate))
    return env


def state_of(env: Any) -> list[Any]:
    data = env.body.data
    code = Data.projected_gravity.fget.__code__  # type: ignore[attr-defined]
    return [
        code,
        data.time,
        data.computed_at,
        id(data.gravity),
        data.gravity.numpy().tolist(),
        data.orientation.tolist(),
    ]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    assert_sound(turning(kind), make_actor(4), tmp_path, steps=100)


def test_without_a_substitute_the_kernel_is_refused():
    errors = check(build(Hooked, Turning, warm=3), make_actor(4)).errors
    assert [item.tensor for item in errors] == ["env.body.data.shared_gravity"]


def test_an_export_lists_the_substitute_and_takes_it_back(tmp_path: Path):
    env = turning()
    before = state_of(env)
    (item,) = exploy.export(env, make_actor(4), tmp_path / "policy.onnx", strict=False).contract.substitutes or ()
    assert item.original.endswith("Data.projected_gravity") and item.largest_error < 1e-6
    assert state_of(env) == before


def test_a_rotation_in_the_wrong_direction_is_refused_with_both_lines(tmp_path: Path):
    env = turning(replacement=rotated_the_wrong_way)
    before = state_of(env)
    with pytest.raises(SubstituteError, match=r"element \[0, \d\] is .*, expected .*largest difference") as raised:
        exploy.export(env, make_actor(4), tmp_path / "policy.onnx")
    lines = [rotated_the_wrong_way.__code__.co_firstlineno, Data.projected_gravity.fget.__code__.co_firstlineno]  # type: ignore[attr-defined]
    assert all(f"{__file__}:{line} (in " in str(raised.value) for line in lines)
    assert state_of(env) == before and not list(tmp_path.iterdir())
