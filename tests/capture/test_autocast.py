"""Conversions that CPU autocast makes are in the file: actors and environments that use it export and agree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rsl_rl.modules import MLP
from torch import nn

from exploy.capture.capture import capture
from exploy.driver.policy_export import export_policy
from exploy.errors import CaptureError, DataDependentError, LoweringError, VerificationError
from exploy.exporter.core.actor import ExportableActor
from exploy.exporter.core.components import Memory
from exploy.policy.policy import BATCH, Policy, PolicyInput, Tensors
from tests.support.builds import BUILDS, Body, assert_sound, build, name_of
from tests.support.environments import assert_agrees, make_actor
from tests.support.masked_code import Masked

Code = Callable[[Masked], torch.Tensor]
DTYPES = [torch.bfloat16, torch.float16]


class Actor(ExportableActor):
    """A network of rsl_rl under autocast, with what autocast treats in other ways around it."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        torch.manual_seed(0)
        self.dtype = dtype
        self.norm, self.network = nn.LayerNorm(4), MLP(4, 2, [32, 32], "elu")
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.mixing = nn.Parameter(torch.randn(4, 4) / 2)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=self.dtype):
            mixed = torch.einsum("ij,kj->ik", obs, self.mixing)
            with torch.autocast("cpu", enabled=False):
                exact = obs @ self.mixing
            attended, _ = self.attention(mixed[None], exact[None], exact[None])
            actions = self.network(self.norm(attended[0] + exact))
        return actions.float()


def values_of(env: Masked, dtype: torch.dtype) -> torch.Tensor:
    with torch.autocast("cpu", dtype=dtype):
        halved = env.x @ env.weights
        halved[:, 0] += 1
        joined = torch.cat([halved[:, :2], env.y[:, 2:]], -1)
        exact = halved.float()
        exact += 1
        return joined + torch.linalg.vector_norm(halved, dim=-1, keepdim=True) + exact


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_program_computes_exactly_what_torch_does(dtype: torch.dtype):
    env, actor = Masked(lambda env: values_of(env, dtype)), Actor(dtype).eval()
    program = capture(env, actor)
    results = program.run(program.examples)[0]
    with torch.no_grad():
        observations = env.observe()
        assert torch.equal(results["obs"], observations)
        assert torch.equal(results["actions"], actor(observations))


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_file_agrees(dtype: torch.dtype, tmp_path: Path):
    assert_agrees(Masked(lambda env: values_of(env, dtype)), Actor(dtype), tmp_path)


class Lowered(Body):
    """Filters in bfloat16, in a decorated function, and remembers a float32."""

    def setup(self) -> None:
        self.filtered = torch.zeros(1, 2)
        self.mixing = torch.tensor([[0.5, 0.1], [-0.2, 0.3]])

    def components(self) -> list[Any]:
        return [*super().components(), Memory("filtered", lambda: self.filtered)]

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def mixed(self) -> torch.Tensor:
        return (self.filtered @ self.mixing).float() + self.vel

    def observe(self) -> torch.Tensor:
        self.filtered[:] = self.mixed()
        return torch.cat([self.pos, self.filtered], -1)

    def restart(self) -> None:
        super().restart()
        self.filtered[:] = 0


@pytest.mark.expensive
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    assert_sound(build(kind, Lowered), Actor(torch.bfloat16), tmp_path, steps=100)


def test_a_frozen_value_is_found_in_spite_of_the_coarser_tolerance(tmp_path: Path):
    class Drifting(Masked):
        gain = 1.0

        def observe(self) -> torch.Tensor:
            self.gain *= 1.2
            return self.gain * super().observe()

    env = Drifting(lambda env: values_of(env, torch.bfloat16))
    with pytest.raises(VerificationError, match="live environment: output 'obs'"):
        assert_agrees(env, make_actor(4), tmp_path)


class LoweredPolicy(Policy):
    """A network that is exported alone, for any number of robots."""

    def __init__(self, dtype: torch.dtype):
        super().__init__([PolicyInput("obs", (BATCH, 4))], [])
        self.actor = Actor(dtype)

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        actions = self.actor.network(self.actor.norm(inputs[0]))
        with torch.autocast("cpu", dtype=self.actor.dtype):
            return (actions + self.actor.network(self.actor.norm(inputs[0])).float(),), ()


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", DTYPES)
def test_policies_alone_export_too(dtype: torch.dtype, tmp_path: Path):
    export_policy(LoweredPolicy(dtype), tmp_path / "policy.onnx", dynamic_batch=True)


def test_an_lstm_under_autocast_is_refused_with_its_line():
    lstm = nn.LSTM(4, 4)

    def recurrent(env: Masked) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return lstm(env.x[None])[0][0].float()

    with pytest.raises(DataDependentError, match=rf"{Path(__file__).name}:\d+ \(in recurrent\).*enabled=False"):
        capture(Masked(recurrent), make_actor(4).eval())


def test_the_bits_of_bfloat16_are_refused_with_their_line(tmp_path: Path):
    def bits(env: Masked) -> torch.Tensor:
        return (env.x.bfloat16().view(torch.int16) >> 7).float() + env.y

    with pytest.raises(LoweringError, match=rf"{Path(__file__).name}:\d+ \(in bits\).*\.float\(\)"):
        assert_agrees(Masked(bits), make_actor(4), tmp_path)


def test_an_export_inside_of_autocast_is_refused():
    with torch.autocast("cpu"), pytest.raises(CaptureError, match="Start it outside"):
        capture(Masked(lambda env: env.x + env.y), make_actor(4).eval())
