"""Files of environments that are hard to capture agree with them over 100 steps with sub-steps and resets.

Memories are fed back only from the file. Every output is compared at every sub-step, with tolerance 1e-5.
"""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exploy.exporter.core.actor import ExportableActor, add_actor_memory
from exploy.exporter.core.components import Connection, Group, Input, Memory, Output
from exploy.exporter.core.tensor_proxy import TensorProxy
from tests.support.environments import TestEnvironment, assert_agrees, make_actor

pytestmark = pytest.mark.expensive


class OldViews(TestEnvironment):
    """Position and velocity are views of one state buffer, created once; the registered Input is the buffer."""

    def __init__(self):
        super().__init__()
        self.state = torch.arange(4.0).reshape(1, 4)
        self.position, self.velocity = self.state[:, :2], self.state[:, 2:]
        self.flat = self.state.view(-1)
        self.context_manager().add_components(
            [Input("state", lambda: self.state), Output("targets", lambda: self.targets)]
        )

    def observe(self):
        return torch.cat([self.position * 2, self.velocity + self.flat[1:3]], dim=-1)

    def move(self):
        self.state += self.noise(self.state)


class PartsOfABuffer(TestEnvironment):
    """Two Inputs are slices of a buffer that is read as a whole; its last column is a constant."""

    num_observations = 6

    def __init__(self, batch_size: int):
        self.batch_size = batch_size
        super().__init__()
        self.buffer = torch.arange(6.0 * batch_size).reshape(batch_size, 6) / 10
        self.context_manager().add_components(
            [
                Input("low", lambda: self.buffer[:, 0:2]),
                Input("high", lambda: self.buffer[:, 3:5]),
                Input("middle", lambda: self.buffer[:, 2]),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self):
        return torch.tanh(self.buffer) + self.buffer.sum(dim=-1, keepdim=True)

    def move(self):
        self.buffer[:, :5] += self.noise(self.buffer[:, :5])


class RolledHistory(TestEnvironment):
    """Has a history that is rolled and rebound while observing, and a history of actions that is rolled in place."""

    num_observations = 12

    def __init__(self):
        super().__init__()
        self.value = torch.ones(1, 2)
        self.history = torch.zeros(1, 3, 2)
        self.actions = torch.zeros(1, 3, 2)
        self.context_manager().add_components(
            [
                Input("value", lambda: self.value),
                Memory("history", lambda: self.history),
                Memory("actions", lambda: self.actions),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self):
        self.history = torch.roll(self.history, shifts=1, dims=1)
        self.history[:, 0] = self.value
        return torch.cat([self.history.flatten(1), self.actions.flatten(1)], dim=-1)

    def process_actions(self, actions):
        self.actions[:, 1:] = self.actions[:, :-1].clone()
        self.actions[:, 0] = actions
        self.targets[:] = actions + self.actions[:, -1]

    def move(self):
        self.value += self.noise(self.value)

    def restart(self):
        self.history = torch.zeros(1, 3, 2)
        self.actions[:] = 0


class BooleanMasks(TestEnvironment):
    """Writes through boolean masks: with the full shape, with leading dimensions, with tensors as values."""

    batch_size = 3

    def __init__(self):
        super().__init__()
        self.value = torch.randn(3, 4, generator=torch.Generator().manual_seed(3))
        self.scratch = torch.zeros(3, 4)
        self.row = torch.tensor([1.0, 2.0, 3.0, 4.0])
        self.context_manager().add_components(
            [Input("value", lambda: self.value), Output("targets", lambda: self.targets)]
        )

    def observe(self):
        self.scratch[:] = self.value
        self.scratch[self.value > 0.5] = 0.25
        self.scratch[self.value[:, 0] < 0] = self.row
        self.scratch[torch.tensor([True, False, False])] *= 2.0
        return self.scratch.masked_fill(self.value < -1, -1.0)

    def move(self):
        self.value += 5 * self.noise(self.value)


class NumpyMemory(TestEnvironment):
    """The simulator stores its state in numpy and returns a new tensor with the same memory at each read."""

    def __init__(self):
        super().__init__()
        self.array = np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4)
        self.context_manager().add_components(
            [
                Input("state", lambda: torch.from_numpy(self.array)),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self):
        first = torch.from_numpy(self.array[:, :2])
        return torch.cat([first, torch.from_numpy(self.array)[:, 2:] * first], dim=-1)

    def move(self):
        self.array += self.noise(torch.zeros(1, 4)).numpy()


class NumpyAtSubSteps(NumpyMemory):
    """Reads the memory of numpy at each sub-step, writes some, and keeps some from step to step."""

    def __init__(self):
        super().__init__()
        self.control, self.filtered = np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32)
        self.context_manager().add_components(
            [
                Output("control", lambda: torch.from_numpy(self.control)),
                Memory("filtered", lambda: torch.from_numpy(self.filtered)),
            ]
        )

    def process_actions(self, actions):
        super().process_actions(actions)
        torch.as_tensor(self.filtered).lerp_(actions, 0.2)

    def apply_actions(self):
        torch.from_numpy(self.control)[:] = torch.from_numpy(self.filtered) - torch.from_numpy(self.array)[:, :2]


@torch.jit.script
def rotate_inverse(quaternion: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    w = quaternion[:, 0:1]
    axis = quaternion[:, 1:]
    cross = torch.cross(axis, vector, dim=-1)
    return vector * (2.0 * w * w - 1.0) - cross * w * 2.0 + axis * (axis * vector).sum(-1, keepdim=True) * 2.0


class ScriptedMaths(TestEnvironment):
    """Computes with a function compiled by torch.jit.script, as simulators do."""

    num_observations = 3

    def __init__(self):
        super().__init__()
        self.quaternion = torch.nn.functional.normalize(torch.tensor([[0.9, 0.1, -0.3, 0.2]]), dim=-1)
        self.gravity = torch.tensor([[0.0, 0.0, -1.0]])
        self.context_manager().add_components(
            [Input("quaternion", lambda: self.quaternion), Output("targets", lambda: self.targets)]
        )

    def observe(self):
        return rotate_inverse(self.quaternion, self.gravity)

    def move(self):
        moved = self.quaternion + self.noise(self.quaternion)
        self.quaternion[:] = torch.nn.functional.normalize(moved, dim=-1)


class TorqueLaw(TestEnvironment):
    """A PD law in apply_actions() reads the current state at every sub-step and filters its own output."""

    def __init__(self, decimation: int = 4):
        super().__init__(decimation=decimation)
        self.position = torch.tensor([[0.3, -0.2]])
        self.velocity = torch.tensor([[0.0, 0.1]])
        self.torque = torch.zeros(1, 2)
        self.filtered = torch.zeros(1, 2)
        self.stiffness = torch.tensor([20.0, 30.0])
        self.context_manager().add_components(
            [
                Input("position", lambda: self.position),
                Input("velocity", lambda: self.velocity),
                Output("torque", lambda: self.torque),
                Memory("filtered", lambda: self.filtered),
            ]
        )

    def observe(self):
        return torch.cat([self.position, self.velocity], dim=-1)

    def apply_actions(self):
        raw = self.stiffness * (self.targets - self.position) - 0.5 * self.velocity
        self.filtered = 0.8 * self.filtered + 0.2 * raw
        self.torque = self.filtered.clamp(-5, 5)

    def move(self):
        self.velocity += 0.01 * self.torque
        self.position += 0.01 * self.velocity

    def restart(self):
        self.position[:] = 0.1
        self.filtered = torch.zeros(1, 2)


class IntegersAndFlags(TestEnvironment):
    """Has an index, a counter, a flag and a double as inputs."""

    def __init__(self):
        super().__init__()
        self.table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        self.index = torch.tensor([2])
        self.flag = torch.tensor([True])
        self.counter = torch.zeros(1, 1, dtype=torch.int32)
        self.time = torch.zeros(1, 1, dtype=torch.float64)
        self.seen = torch.zeros(1, dtype=torch.bool)
        self.context_manager().add_components(
            [
                Input("index", lambda: self.index),
                Input("flag", lambda: self.flag),
                Input("time", lambda: self.time),
                Memory("counter", lambda: self.counter),
                Memory("seen", lambda: self.seen),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self):
        chosen = torch.where(self.flag[:, None], self.table[self.index], -self.table[self.index])
        phase = torch.sin(self.time + self.counter).float() + self.seen[:, None]
        return torch.cat([chosen, phase, self.counter.float()], dim=-1)

    def process_actions(self, actions):
        self.counter += 1
        self.seen |= self.flag
        super().process_actions(actions)

    def move(self):
        self.index[:] = (self.index + 1) % 3
        self.flag[:] = self.index != 1
        self.time += 0.013

    def restart(self):
        self.counter[:] = 0
        self.seen[:] = False


class MemoryThroughOldView(TestEnvironment):
    """The previous actions are written through a view that was created earlier, and through its `.data`."""

    def __init__(self):
        super().__init__()
        self.value = torch.ones(1, 2)
        self.previous = torch.zeros(1, 2)
        self.left = self.previous[:, 0]
        self.right = self.previous.T[1]
        self.context_manager().add_components(
            [
                Input("value", lambda: self.value),
                Memory("previous", lambda: self.previous),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self):
        return torch.cat([self.value, self.previous], dim=-1)

    def process_actions(self, actions):
        self.left.copy_(actions[:, 0])
        self.right.data[:] = 0.5 * actions[:, 1]
        self.targets = actions + self.previous
        self.targets.data += 1.0

    def move(self):
        self.value += self.noise(self.value)

    def restart(self):
        self.previous[:] = 0


class UnregisteredActionState(TestEnvironment):
    """Unregistered state between policy step and sub-steps: rebound, in place, and changed by the sub-steps."""

    def __init__(self):
        super().__init__()
        self.value = torch.ones(1, 4)
        self.processed = torch.zeros(1, 2)
        self.scaled = torch.zeros(1, 2)
        self.output = torch.zeros(1, 2)
        self.context_manager().add_components(
            [Input("value", lambda: self.value), Output("output", lambda: self.output)]
        )

    def observe(self):
        return self.value * 2

    def process_actions(self, actions):
        self.processed = torch.stack([actions, actions + 1])
        self.scaled[:] = 3 * actions
        self.ramp = actions * 0.1

    def apply_actions(self):
        self.ramp = self.ramp + 0.01
        self.scaled *= 0.9
        self.output = self.processed[1] + self.scaled + self.ramp

    def move(self):
        self.value += self.noise(self.value)


class GroupsAndConnections(TestEnvironment):
    """Nested groups; a connection copies an Input to the command buffer; a command update turns it."""

    def __init__(self):
        super().__init__()
        self.joints = torch.tensor([[0.1, 0.2]])
        self.wanted = torch.tensor([[0.5, -0.5]])
        self.command = torch.zeros(1, 2)
        self.turned = torch.zeros(1, 2)
        legs = Group("legs", [Input("position", lambda: self.joints)], metadata={"joint_names": ["a", "b"]})
        manager = self.context_manager()
        manager.add_group(Group("robot", [legs, Memory("turned", lambda: self.turned)]))
        manager.add_components(
            [
                Input("wanted", lambda: self.wanted),
                Output("targets", lambda: self.targets),
                Connection("command", lambda: self.wanted, lambda value: self.command.copy_(value)),
            ]
        )
        self.register_command_update(self.turn)

    def turn(self):
        self.turned[:] = 0.5 * self.turned + self.command

    def observe(self):
        return torch.cat([self.joints, self.turned], dim=-1)

    def apply_actions(self):
        self.targets[:] = self.command + self.joints

    def move(self):
        self.joints += self.noise(self.joints)
        self.wanted += self.noise(self.wanted)

    def restart(self):
        self.turned[:] = 0


class SplitBodies(TestEnvironment):
    """Body positions are split by a TensorProxy, so that each body is a separate Input."""

    num_observations = 12

    def __init__(self):
        super().__init__()
        self.body_position = TensorProxy(torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(5)), split_dim=1)
        self.context_manager().add_components(
            [
                Input("foot", lambda: self.body_position[:, 3]),
                Input("hand", lambda: self.body_position[:, 1]),
                Input("head", lambda: self.body_position[:, 2]),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self):
        chosen = self.body_position[:, [1, 3]].flatten(1)
        relative = self.body_position[:, 3] - self.body_position[:, 1]
        return torch.cat([chosen, relative, self.body_position[:, 2:].mean(dim=1)], dim=-1)

    def move(self):
        self.body_position[:, 1:] += self.noise(self.body_position[:, 1:])


class StridedViews(TestEnvironment):
    """Reads and writes through old views with steps, transpositions and diagonals."""

    batch_size = 2
    num_observations = 6

    def __init__(self):
        super().__init__()
        self.state = torch.arange(12.0).reshape(2, 6) / 10
        self.odd, self.turned = self.state[:, 1::2], self.state.T
        self.memory = torch.zeros(3, 3)
        self.diagonal, self.corner, self.last_row = self.memory.diagonal(), self.memory[::2, ::2], self.memory[-1]
        self.context_manager().add_components(
            [
                Input("state", lambda: self.state),
                Memory("memory", lambda: self.memory),
                Output("targets", lambda: self.targets),
            ]
        )

    def observe(self):
        sums = torch.cat([self.memory.sum(0), self.diagonal]).expand(2, 6)
        return torch.cat([self.odd, self.turned[:3].T], dim=-1) + sums

    def process_actions(self, actions):
        super().process_actions(actions)
        self.diagonal.copy_(self.diagonal * 0.5 + actions.sum())
        self.corner += actions
        self.last_row[1:] = actions[0]

    def move(self):
        self.state += self.noise(self.state)

    def restart(self):
        self.memory.zero_()


class Plain(TestEnvironment):
    """Observes its state. Subclasses add behavior."""

    def __init__(self):
        super().__init__()
        self.state = torch.tensor([[0.5, -0.5, 0.25, -0.25]])
        self.context_manager().add_components(
            [Input("state", lambda: self.state), Output("targets", lambda: self.targets)]
        )

    def observe(self):
        return self.state * 2

    def move(self):
        self.state += self.noise(self.state)


class CachedUntilTimeMoves(Plain):
    """Computes a value again only if the simulated time has changed; a connection advances the time at every step."""

    def __init__(self):
        super().__init__()
        self.time = 0.0
        self.cached_at, self.cached = -1.0, torch.zeros(1, 4)
        self.context_manager().add_component(Connection("clock", lambda: 0.005, self.let_time_pass))

    def let_time_pass(self, duration):
        self.time += duration

    @property
    def doubled(self):
        if self.cached_at < self.time:
            self.cached_at, self.cached = self.time, self.state * 2
        return self.cached

    def observe(self):
        return self.doubled + 1

    def apply_actions(self):
        self.targets[:] = self.doubled[:, :2]

    def move(self):
        super().move()
        self.time += 0.005


class Compiled(Plain):
    """Calls functions that are wrapped by torch.compile."""

    def __init__(self):
        super().__init__()
        self.function = torch.compile(lambda value: torch.sin(value) + 1, backend="eager")

    def observe(self):
        return self.function(self.state)


class Copying(Plain):
    """Copies tensors in Python, broadcasts with copy_, writes with out= and with index lists."""

    def __init__(self):
        super().__init__()
        self.scratch, self.rows, self.total = torch.zeros(1, 4), torch.zeros(3, 4), torch.zeros(1, 4)

    def observe(self):
        torch.add(self.state, 1.0, out=self.scratch)
        self.rows.copy_(copy.deepcopy(self.scratch))
        self.total[:, [0, 1, 2, 3]] = self.rows.sum(dim=0, keepdim=True)
        return self.total * 1.0


class OneHot(Plain):
    """Encodes an index."""

    def __init__(self):
        super().__init__()
        self.mode = torch.tensor([0])
        self.context_manager().add_component(Input("mode", lambda: self.mode))

    def observe(self):
        return torch.nn.functional.one_hot(self.mode, 4) * self.state

    def move(self):
        super().move()
        self.mode[:] = (self.mode + 1) % 4


class WriteOnlyMemory(Plain):
    """Registers a memory that is not read."""

    def __init__(self):
        super().__init__()
        self.previous = torch.zeros(1, 2)
        self.context_manager().add_component(Memory("previous", lambda: self.previous))

    def process_actions(self, actions):
        self.previous[:] = actions
        super().process_actions(actions)

    def apply_actions(self):
        self.previous[:] = self.targets * 2


class NothingToGive(TestEnvironment):
    """Has neither Outputs nor Memories, only actions."""

    def __init__(self):
        super().__init__(decimation=2)
        self.state = torch.ones(1, 4)
        self.context_manager().add_component(Input("state", lambda: self.state))

    def observe(self):
        return self.state * 2

    def move(self):
        self.state += self.noise(self.state)


class ActuatorNetwork(Plain):
    """Controls its joints through a scripted network, like the actuator networks of simulators."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.network = torch.jit.script(
            torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        )
        self.torque = torch.zeros(1, 2)
        self.context_manager().add_component(Output("torque", lambda: self.torque))

    def apply_actions(self):
        self.torque = self.network(self.targets - self.state[:, :2])


class HalfPrecision(Plain):
    """Has a memory in half precision."""

    def __init__(self):
        super().__init__()
        self.slow = torch.zeros(1, 4, dtype=torch.float16)
        self.context_manager().add_component(Memory("slow", lambda: self.slow))

    def observe(self):
        return self.state + self.slow.float()

    def process_actions(self, actions):
        self.slow = (0.5 * self.slow + self.state.half()).clamp(-1, 1)
        super().process_actions(actions)


ENVIRONMENTS = {
    "strided views": StridedViews,
    "views created before the export": OldViews,
    "inputs are parts of a buffer": lambda: PartsOfABuffer(1),
    "inputs are parts of a buffer, several environments": lambda: PartsOfABuffer(3),
    "history rolled and rebound": RolledHistory,
    "boolean masks": BooleanMasks,
    "memory shared with numpy": NumpyMemory,
    "memory shared with numpy, at sub-steps": NumpyAtSubSteps,
    "scripted maths": ScriptedMaths,
    "a torque law at sub-steps": TorqueLaw,
    "a torque law without sub-steps": lambda: TorqueLaw(decimation=1),
    "a torque law with one sub-step": lambda: TorqueLaw(decimation=2),
    "integers, flags, doubles": IntegersAndFlags,
    "memory written through old views": MemoryThroughOldView,
    "unregistered action state": UnregisteredActionState,
    "groups and connections": GroupsAndConnections,
    "split bodies": SplitBodies,
    "values cached until the time changes": CachedUntilTimeMoves,
    "compiled functions": Compiled,
    "copies of all kinds": Copying,
    "one-hot encoding": OneHot,
    "a memory that is not read": WriteOnlyMemory,
    "neither outputs nor memories": NothingToGive,
    "a scripted actuator network": ActuatorNetwork,
}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
def test_file_agrees_with_environment(make, tmp_path: Path):
    env = make()
    assert_agrees(env, make_actor(env.num_observations), tmp_path)


@pytest.mark.parametrize("made_inside", [True, False])
def test_inference_mode(made_inside, tmp_path: Path):
    with torch.inference_mode(made_inside):
        env = RolledHistory()
    with torch.inference_mode():
        assert_agrees(env, make_actor(env.num_observations), tmp_path)


def test_environment_of_inference_tensors_is_evaluated_outside_inference_mode(tmp_path: Path):
    with torch.inference_mode():
        env = RolledHistory()
    assert_agrees(env, make_actor(env.num_observations), tmp_path)


def test_tensors_that_require_grad(tmp_path: Path):
    class Scaled(OldViews):
        gain = torch.nn.Parameter(torch.full((4,), 1.5))

        def observe(self):
            return self.state * self.gain

    assert_agrees(Scaled(), make_actor(4), tmp_path)


class RecurrentActor(ExportableActor):
    def __init__(self, kind: type[torch.nn.LSTM] | type[torch.nn.GRU], num_obs: int, batch_size: int = 1):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = kind(num_obs, 6, num_layers=2)
        self.head = torch.nn.Linear(6, 2)
        hidden = torch.zeros(2, batch_size, 6)
        self.state = (hidden, hidden.clone()) if kind is torch.nn.LSTM else hidden

    def forward(self, obs):
        out, self.state = self.rnn(obs[None], self.state)
        return self.head(out[0])

    def reset(self, dones):
        for state in self.get_state():
            state[:, dones] = 0.0

    def get_state(self):
        return self.state if isinstance(self.state, tuple) else (self.state,)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_recurrent_actor(kind, batch_size, tmp_path: Path):
    env = PartsOfABuffer(batch_size)
    actor = RecurrentActor(kind, env.num_observations, batch_size)
    with torch.no_grad():
        actor(env.empty_actor_observations())
    add_actor_memory(env.context_manager(), actor.get_state)
    assert_agrees(env, actor, tmp_path)


def script_and_freeze(network: torch.nn.Module) -> Any:
    return torch.jit.freeze(torch.jit.script(network.eval()))


def compile_eagerly(network: torch.nn.Module) -> Any:
    return torch.compile(network, backend="eager")


@pytest.mark.parametrize("wrap", [torch.jit.script, script_and_freeze, compile_eagerly])
def test_actors_that_were_scripted_frozen_or_compiled(wrap, tmp_path: Path):
    torch.manual_seed(0)
    actor = wrap(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ELU(), torch.nn.Linear(8, 2)))
    assert_agrees(Plain(), actor, tmp_path, steps=10)


def test_half_precision(tmp_path: Path):
    assert_agrees(HalfPrecision(), make_actor(4), tmp_path, tolerance=3e-3)


def test_an_actor_that_drops_its_state_at_a_reset(tmp_path: Path):
    class Dropping(RecurrentActor):
        state: Any

        def reset(self, dones):
            self.state = None

        def get_state(self):
            return self.state

    actor = Dropping(torch.nn.LSTM, 4)
    env = Plain()
    add_actor_memory(env.context_manager(), actor.get_state)
    assert_agrees(env, actor, tmp_path)
