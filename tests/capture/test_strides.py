"""Files have values, but no memory with strides: what reads memory by strides is right or refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from exploy.environment.components import Input
from exploy.errors import CaptureError
from tests.support.environments import TestEnvironment, assert_agrees, export, make_actor

Read = Callable[[torch.Tensor], torch.Tensor]


class Strided(TestEnvironment):
    """Reads its state by strides."""

    num_observations = 2

    def __init__(self, state: torch.Tensor, read: Read):
        super().__init__()
        self.state, self._read = state, read
        self.context_manager().add_component(Input("state", lambda: self.state))

    def observe(self) -> torch.Tensor:
        return self._read(self.state)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.targets[:] = actions

    def move(self) -> None:
        self.state.copy_(torch.arange(12.0).reshape(self.state.shape) + self.noise(self.state))


def test_memory_that_is_laid_out_as_values_are_can_be_read_by_strides(tmp_path: Path) -> None:
    env = Strided(torch.zeros(4, 3), lambda state: state.as_strided((1, 2), (2, 1), 1))
    assert_agrees(env, make_actor(2), tmp_path, steps=20)


WRONG: dict[str, tuple[torch.Tensor, Read]] = {
    "transposed": (torch.zeros(3, 4).t(), lambda state: state.as_strided((1, 2), (2, 1), 1)),
    "a column": (torch.zeros(12, 3)[:, 1], lambda state: state.as_strided((1, 2), (2, 1))),
    "a part": (torch.zeros(24)[12:], lambda state: state.as_strided((1, 2), (2, 1), 13)),
    "beyond its end": (torch.zeros(24)[:12], lambda state: state.as_strided((1, 2), (2, 1), 13)),
    "in the code": (torch.zeros(4, 3), lambda state: (2 * state).t().as_strided((1, 2), (2, 1), 1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_other_memory_is_refused_with_the_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"test_strides.py:\d+.*as_strided\(\) reads the memory"):
        export(Strided(*WRONG[name]), make_actor(2), tmp_path)
