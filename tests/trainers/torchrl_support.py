"""Environments and comparisons for the tests of TorchRL."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exploy.runtime import Controller

pytest.importorskip("torchrl")

from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase, set_exploration_type

_DECLARED = torch.library.Library("torchvision", "FRAGMENT")  # the declarations last as long as this object


def import_torchvision() -> None:
    """Import torchvision even if it was installed for another torch build, by declaring its operators."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            _DECLARED.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401


class ScriptedEnv(EnvBase):
    """Returns prepared observations in episodes of given lengths, and records its actions.

    Args:
        observations: The values over time, by key.
        action_spec: The spec of its actions.
        lengths: Lengths of the episodes, repeated.
    """

    def __init__(
        self, observations: Mapping[str, torch.Tensor], action_spec: Any, lengths: tuple[int, ...] = (7, 3, 11)
    ):
        super().__init__(batch_size=[])
        self.observations = dict(observations)
        specs = {name: _spec(values) for name, values in self.observations.items()}
        self.observation_spec = Composite(specs)
        self.action_spec = action_spec
        self.reward_spec = Unbounded((1,))
        self.lengths = lengths
        self.now, self.episode, self.left = 0, 0, 0
        self.acted_on: list[tuple[dict[str, np.ndarray], bool]] = []
        self.received: list[np.ndarray] = []

    def _observed(self, is_start: bool, is_done: bool) -> Any:
        values = {name: series[self.now % len(series)].clone() for name, series in self.observations.items()}
        self.now += 1
        if not is_done:
            self.acted_on.append(({name: value.numpy().copy() for name, value in values.items()}, is_start))
        done = torch.tensor([is_done])
        return TensorDict({**values, "done": done, "terminated": done.clone()}, [])

    def _reset(self, tensordict: Any = None, **_: Any) -> Any:
        self.left = self.lengths[self.episode % len(self.lengths)]
        self.episode += 1
        return self._observed(True, False)

    def _step(self, tensordict: Any) -> Any:
        self.received.append(tensordict["action"].numpy().copy())
        self.left -= 1
        result = self._observed(False, self.left == 0)
        return result.set("reward", torch.zeros(1))

    def _set_seed(self, seed: int | None) -> None:
        """Do nothing: the environment is deterministic."""


def _spec(values: torch.Tensor) -> Any:
    if values.dtype == torch.uint8:
        return Bounded(0, 255, values.shape[1:], dtype=torch.uint8)
    return Unbounded(values.shape[1:], dtype=values.dtype)


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random values over time."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.uint8:
        return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return (2 * torch.randn(shape, generator=generator)).to(dtype)


def assert_runs_as_in(env: Any, policy: Any, path: Path, base: ScriptedEnv, steps: int = 150) -> Controller:
    """Require that a file gives the same actions for raw observations as the policy in its environment."""
    with torch.no_grad(), set_exploration_type("deterministic"):
        base.now, base.episode, base.acted_on, base.received = 0, 0, [], []
        tensordict = env.reset()
        for _ in range(steps):
            _, tensordict = env.step_and_maybe_reset(policy(tensordict))
    controller = Controller.load(path)
    assert len(base.received) == steps and sum(is_start for _, is_start in base.acted_on[:steps]) > 1
    for step, ((observation, is_start), expected) in enumerate(zip(base.acted_on, base.received, strict=False)):
        if is_start:
            controller.reset()
        got = controller.step({name: observation[name] for name in controller.inputs})["action"]
        assert_same(got, expected, step)
    return controller


def assert_same(got: np.ndarray, expected: np.ndarray, step: int = 0) -> None:
    """Require the same shape, dtype and values. Integers must be equal."""
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype), (got.shape, got.dtype, expected.shape)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=f"step {step}")
    else:
        np.testing.assert_array_equal(got, expected, err_msg=f"step {step}")
