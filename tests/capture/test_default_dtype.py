"""Environments whose default dtype is float64 export and agree."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.exporter.core.components import Memory
from tests.support.builds import BUILDS, Body, assert_sound, build, name_of
from tests.support.environments import make_actor


@pytest.fixture
def float64_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


class Precise(Body):
    """Filters, a clock and activations in float64, of tensors and numbers that name no dtype."""

    def setup(self) -> None:
        self.filtered = torch.zeros(1, 2)
        self.clock = torch.zeros(1)

    def components(self) -> list[Any]:
        return [
            *super().components(),
            Memory("filtered", lambda: self.filtered),
            Memory("clock", lambda: self.clock),
        ]

    def observe(self) -> torch.Tensor:
        self.clock += 0.01
        self.filtered = 0.7 * self.filtered + torch.nn.functional.softplus(self.vel) / 3
        angle = torch.atan2(self.pos, torch.tensor([0.3, 0.1]) + self.clock.sin())
        return torch.cat([angle, self.filtered], -1)

    def accept(self, actions: torch.Tensor) -> None:
        self.targets[:] = torch.clip(actions + 1e-9, -1, 1)

    def restart(self) -> None:
        super().restart()
        self.filtered = torch.zeros(1, 2)
        self.clock[:] = 0


@pytest.mark.expensive
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
@pytest.mark.usefixtures("float64_by_default")
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    env, actor = build(kind, Precise), make_actor(4)
    assert env.empty_actions().dtype is torch.float64 and next(actor.parameters()).dtype is torch.float64
    assert_sound(env, actor, tmp_path, steps=100)
