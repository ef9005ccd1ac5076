"""Files of different kinds that are compiled to C: made once a test run."""

import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.mlp_environment import MlpEnvironment, make_network
from exploy.codegen.build import build, with_fixed_sizes
from exploy.codegen.program import Program, write_program
from exploy.driver.policy_export import export_policy
from exploy.exporter.core.actor import make_exportable_actor
from exploy.exporter.core.components import Group, Input, Memory, Output
from exploy.policy.policy import BATCH, Policy, PolicyInput, Tensors
from exploy.policy.recurrent import rnn_states, rnn_step
from exploy.runtime.model_file import ModelFile
from exploy.trainers.gbc import export_policy_as_onnx
from tests.support import camera_robots, gbc, pd_robots, tutorial
from tests.support.c_files import compiler, plain_robot_file
from tests.support.environments import TestEnvironment, make_actor
from tests.support.files import cart_pole_file, exported


class Transformer(torch.nn.Module):
    """Computes actions from the last frames."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Linear(width, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(16, 2)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        actions: torch.Tensor = self.head(self.encoder(self.embed(frames))[:, -1])
        return actions


class HistoryRobot(TestEnvironment):
    """Observes its last eight frames, and filters its targets at every sub-step."""

    def __init__(self) -> None:
        super().__init__()
        self.state = torch.tensor([[0.1, -0.2, 0.3]])
        self.frames = torch.zeros(1, 8, 5)
        self.filtered = torch.zeros(1, 2)
        self.context_manager().add_components(
            [
                Input("state", lambda: self.state),
                Memory("frames", lambda: self.frames),
                Memory("filtered", lambda: self.filtered),
                Output("joint_targets", lambda: self.filtered),
            ]
        )

    def observe(self) -> torch.Tensor:
        newest = torch.cat([self.state, self.filtered], -1)
        self.frames = torch.cat([self.frames[:, 1:], newest[:, None]], 1)
        return self.frames * 1.0

    def apply_actions(self) -> None:
        self.filtered[:] = self.filtered + 0.3 * (self.targets.tanh() - self.filtered)

    def move(self) -> None:
        self.state += self.noise(self.state)

    def restart(self) -> None:
        self.state[:] = torch.tensor([[0.1, -0.2, 0.3]])

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, 8, 5)

    def get_observation_names(self) -> Any:
        return [f"obs_{index}" for index in range(40)]


class GridRobot(TestEnvironment):
    """Looks up heights below its position, writes where it was, and has modes, flags and a counter of integers."""

    num_observations = 9

    def __init__(self) -> None:
        super().__init__(decimation=2)
        generator = torch.Generator().manual_seed(0)
        self.heights = torch.rand(6, 6, generator=generator)
        self.gains = torch.rand(4, 3, generator=generator)
        self.position = torch.tensor([[0.3, 0.4]])
        self.mode = torch.zeros(1, dtype=torch.int64)
        self.contact = torch.zeros(1, 2, dtype=torch.bool)
        self.visits = torch.zeros(6, dtype=torch.int32)
        self.marks = torch.zeros(1, 6)
        self.context_manager().add_components(
            [
                Input("position", lambda: self.position),
                Input("mode", lambda: self.mode),
                Input("contact", lambda: self.contact),
                Memory("visits", lambda: self.visits),
                Memory("marks", lambda: self.marks),
                Output("targets", lambda: self.targets),
                Output("visited", lambda: self.visits),
                Output("lifted", lambda: ~self.contact),
            ]
        )

    def observe(self) -> torch.Tensor:
        cell = (self.position * 6).long().clamp(0, 5)
        height = self.heights[cell[:, 0], cell[:, 1]]
        gain = self.gains[self.mode % 4]
        self.marks = self.marks.scatter(1, cell[:, :1], self.position[:, 1:])
        nearest = torch.argsort(self.marks[0], descending=True)[:2].float()[None]
        flags = self.contact.float()
        return torch.cat([height[:, None], gain, self.position, nearest, flags[:, :1] - flags[:, 1:]], -1)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.targets[:] = torch.where(self.contact, actions, -actions).clamp(-1.0, 1.0)
        self.visits.index_add_(0, (self.mode % 6).int(), torch.ones(1, dtype=torch.int32))

    def move(self) -> None:
        self.position += self.noise(self.position)
        self.mode[:] = (self.mode + 1) % 7
        self.contact[:] = self.position > 0.35

    def restart(self) -> None:
        self.position[:] = 0.3


class Recurrent(Policy):
    """Two stacked layers of a recurrent network between two others."""

    def __init__(self, kind: type[torch.nn.Module]):
        torch.manual_seed(0)
        rnn = kind(5, 24, num_layers=2)
        super().__init__([PolicyInput("obs", (BATCH, 5))], rnn_states(rnn), libraries=("torch",))
        self.rnn, self.head = rnn, torch.nn.Linear(24, 3)

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        features, states = rnn_step(self.rnn, inputs[0], states)
        return (self.head(features),), states


def _mlp() -> bytes:
    return exported(MlpEnvironment(), make_exportable_actor(make_network()))


def _recurrent_robot(actor: str) -> bytes:
    return exported(*pd_robots.robot_and_actor(pd_robots.Robot(10.0, actor)))


def _policy(kind: type[torch.nn.Module]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return export_policy(Recurrent(kind), Path(folder) / "policy.onnx").read_bytes()


def _trainers_transformer() -> bytes:
    torch.manual_seed(0)
    model = gbc.ActorCritic(gbc.Transformer(gbc.Embedding(gbc.WIDTH, 16, 4), None, 16))
    with tempfile.TemporaryDirectory() as folder:
        export_policy_as_onnx(model, folder)
        return (Path(folder) / "policy.onnx").read_bytes()


def _tutorial() -> bytes:
    torch.manual_seed(0)
    env = tutorial.ExportableEnv(tutorial.Environment(tutorial.DataSource()))
    source, manager = env.env.data_source, env.context_manager()
    manager.add_components(
        [
            Input("foo", lambda: source.foo),
            Output("out", lambda: env.env._output),
            Memory("actions", lambda: env.env._actions),
        ]
    )
    manager.add_group(Group("group", [Input("bar", lambda: source.bar), Input("baz", lambda: source.baz)]))
    return exported(env, tutorial.Actor(env.env.num_obs, env.env.num_act).eval())


def _camera(build: str) -> bytes:
    env, actor = camera_robots.BUILDS[build]()
    return exported(env, make_exportable_actor(actor))


_MAKERS: Mapping[str, Callable[[], bytes]] = {
    "mlp": _mlp,
    "lstm": lambda: _recurrent_robot("lstm"),
    "gru": lambda: _recurrent_robot("gru"),
    "transformer": lambda: exported(HistoryRobot(), make_exportable_actor(Transformer(5))),
    "demo": cart_pole_file,
    "gathers, scatters, integers": lambda: exported(GridRobot(), make_actor(9)),
    "camera": lambda: _camera("hooked"),
    "tutorial": _tutorial,
    "named joints": plain_robot_file,
    "camera of bytes": lambda: _camera("gymnasium"),
    "stacked lstm alone": lambda: _policy(torch.nn.LSTM),
    "stacked gru alone": lambda: _policy(torch.nn.GRU),
    "transformer of a trainer": _trainers_transformer,
}
KINDS = tuple(_MAKERS)
MAIN_KINDS = KINDS[:5]


@functools.cache
def sample(kind: str) -> ModelFile:
    """The ONNX file of a kind."""
    return ModelFile.parse(_MAKERS[kind]())


@functools.cache
def sample_program(kind: str) -> Program:
    """Its program as C."""
    file = sample(kind)
    return write_program(file.data, with_fixed_sizes(file.contract), "policy", outline=file.outline)


@functools.cache
def sample_archive(kind: str) -> bytes:
    """Its archive of C, with a library for this machine."""
    file = sample(kind)
    return build(file.data, file.contract, "policy", compiler(), outline=file.outline).archive
