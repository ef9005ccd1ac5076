"""The golden trace: small, from the torch program, with memories fed back over both rates."""

from typing import Any

import numpy as np
import pytest
import torch

from exploy.contract import GoldenTrace
from exploy.exporter.core.components import Input, Memory, Output
from exploy.runtime import Controller
from exploy.runtime.model_file import ModelFile
from exploy.verify import golden_trace
from exploy.verify.golden_trace import MAX_BYTES
from tests.support.environments import TestEnvironment, make_actor
from tests.support.files import exported, robot_file
from tests.support.robot import Robot


def trace_of(data: bytes) -> GoldenTrace:
    trace = ModelFile.parse(data).contract.trace
    assert trace is not None
    return trace


def test_it_is_a_few_policy_steps_with_their_sub_steps() -> None:
    trace = trace_of(robot_file())
    assert trace.ticks == 12
    assert set(trace.inputs) == {"joints.pos", "joints.vel", "cmd"}
    assert set(trace.outputs) == {"actions", "obs", "joint_targets"}
    inputs, outputs = trace.input_arrays(), trace.output_arrays()
    assert inputs["joints.pos"].shape == (12, 1, 4)
    assert len({array.tobytes() for array in inputs["joints.vel"]}) == 12
    assert len({array.tobytes() for array in outputs["actions"]}) == 3
    assert len({array.tobytes() for array in outputs["joint_targets"]}) == 12


def test_it_starts_at_the_live_values_and_goes_around_them() -> None:
    positions = trace_of(robot_file()).input_arrays()["joints.pos"]
    live = Robot().pos.numpy()
    np.testing.assert_array_equal(positions[0], live)
    assert 0 < np.abs(positions[1:] - live).max() < 1.0


def test_it_is_what_the_environment_computes_and_not_what_onnxruntime_does() -> None:
    """The environment's own Python on the inputs of the trace gives its outputs, to the last bits of torch."""
    trace, env, actor = trace_of(robot_file()), Robot(), make_actor(13, 3).eval()
    inputs, outputs = trace.input_arrays(), trace.output_arrays()
    with torch.no_grad():
        for tick in range(trace.ticks):
            for tensor, name in ((env.pos, "joints.pos"), (env.vel, "joints.vel"), (env.command, "cmd")):
                tensor.copy_(torch.from_numpy(inputs[name][tick]))
            if tick % 4 == 0:
                env.process_actions(actor(env.observe()))
            env.apply_actions()
            np.testing.assert_allclose(outputs["joint_targets"][tick], env.filtered.numpy(), atol=1e-6)
            np.testing.assert_allclose(outputs["actions"][tick], env.last.numpy(), atol=1e-6)


def test_it_can_be_switched_off() -> None:
    assert ModelFile.parse(exported(Robot(), make_actor(13, 3), golden_trace=False)).contract.trace is None


class Camera(TestEnvironment):
    """An image goes in, and a number of its pixels is remembered."""

    num_observations = 2

    def __init__(self, size: int) -> None:
        super().__init__()
        self.image = torch.zeros(1, size, size)
        self.seen = torch.zeros(1, 2)
        self.context_manager().add_components(
            [
                Input("image", lambda: self.image),
                Memory("seen", lambda: self.seen),
                Output("targets", lambda: self.targets * 1.0),
            ]
        )

    def observe(self) -> torch.Tensor:
        self.seen[:] = self.image[:, 0, :2] + 0.5 * self.seen
        return self.seen * 1.0

    def move(self) -> None:
        self.image += self.noise(self.image)


@pytest.mark.parametrize(("size", "ticks"), [(8, 12), (120, 4), (300, 1), (310, None)])
def test_its_size_is_bounded(size: int, ticks: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden_trace, "MAX_BYTES_OF_ONE_TICK", 370_000)
    data = exported(Camera(size), make_actor(2))
    trace = ModelFile.parse(data).contract.trace
    assert (None if trace is None else trace.ticks) == ticks
    assert len(data) < 1.5 * max(MAX_BYTES, 4 * size**2 if ticks == 1 else 0) + 20_000
    if trace is not None:
        assert Controller.load(data).selftest() == ticks


class Lookup(TestEnvironment):
    """A table that an input points into: other values of that input than the one found may be out of range."""

    num_observations = 2

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.arange(6.0).reshape(3, 2)
        self.row = torch.tensor([2])
        self.context_manager().add_components(
            [Input("row", lambda: self.row), Output("targets", lambda: self.targets * 1.0)]
        )

    def observe(self) -> torch.Tensor:
        return self.table[self.row]

    def move(self) -> None:
        self.row[:] = (self.row + 1) % 3


def test_indices_stay_valid() -> None:
    assert Controller.load(exported(Lookup(), make_actor(2))).selftest() == 12


class Chaotic(TestEnvironment):
    """A memory in which the smallest error grows tenfold at every tick."""

    num_observations = 2

    def __init__(self) -> None:
        super().__init__(decimation=20)
        self.value, self.state = torch.zeros(1, 2), torch.full((1, 2), 0.3)
        self.context_manager().add_components(
            [
                Input("value", lambda: self.value),
                Memory("state", lambda: self.state),
                Output("targets", lambda: self.state * 1.0),
            ]
        )

    def observe(self) -> torch.Tensor:
        return self.value * 1.0

    def apply_actions(self) -> None:
        self.state[:] = torch.sin(9.0 * self.state + self.targets)

    def move(self) -> None:
        self.value += self.noise(self.value)


def test_it_ends_where_a_chaotic_memory_would_let_rounding_show() -> None:
    data = exported(Chaotic(), make_actor(2), verify_environment=False)
    assert 1 <= trace_of(data).ticks < 12
    assert Controller.load(data).selftest() == trace_of(data).ticks


def test_many_sub_steps_do_not_make_it_long() -> None:
    assert trace_of(exported(Robot(decimation=1000), make_actor(13, 3))).ticks == 200


class Noisy(torch.nn.Module):
    """Draws its actions."""

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return observations + torch.randn(1, 2)


def test_outputs_that_random_numbers_reach_are_not_in_it() -> None:
    trace = trace_of(exported(Camera(8), Noisy(), allow_random=True))
    assert set(trace.outputs) == {"obs"}


def test_half_precision_has_a_tolerance_of_its_own() -> None:
    class Half(Robot):
        def __init__(self) -> None:
            super().__init__()
            self.command: Any = self.command.half()

        def observe(self) -> torch.Tensor:
            return torch.cat([self.pos, self.vel, self.command.float(), self.last], dim=-1)

    assert trace_of(robot_file()).tolerance == 1e-4
    assert trace_of(exported(Half(), make_actor(13, 3))).tolerance > 1e-3
