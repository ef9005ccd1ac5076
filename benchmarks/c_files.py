"""The files whose programs in C are measured, and the programs."""

import contextlib
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.modules import MLP

from benchmarks.backends import POLICIES, batch_size_of
from benchmarks.gru_actor import GruActor
from benchmarks.humanoid_environment import make_humanoid
from benchmarks.lstm_actor import LstmActor
from benchmarks.mlp_environment import NUM_ACTIONS, NUM_OBSERVATIONS, MlpEnvironment, make_network
from exploy.codegen.build import Built, build
from exploy.codegen.compilers import Compiler
from exploy.exporter.core.actor import add_actor_memory
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.frameworks import torchrl
from exploy.runtime.model_file import ModelFile

ExportFile = Callable[[Path], Path]  # takes the path of the file, without its suffix


@dataclass(frozen=True)
class Program:
    """A file, and the same program as C.

    Args:
        file: The ONNX file.
        built: The program as C.
        parameters: How many floating-point numbers the file stores.
    """

    file: ModelFile
    built: Built
    parameters: int

    @classmethod
    def of(cls, path: Path, compiler: Compiler) -> "Program":
        """Write and compile a file."""
        file = ModelFile.load(path)
        stored = onnx.load(path).graph.initializer
        parameters = sum(int(np.prod(item.dims)) for item in stored if item.data_type == onnx.TensorProto.FLOAT)
        return cls(file, build(file.data, file.contract, "measured", compiler), parameters)


def robot_with(make_actor: Callable[[int, int], Any]) -> ExportFile:
    """Write the robot of `MlpEnvironment` with a recurrent actor."""

    def export(path: Path) -> Path:
        env, actor = MlpEnvironment(), make_actor(NUM_OBSERVATIONS, NUM_ACTIONS).eval()
        add_actor_memory(env.context_manager(), actor.get_state)
        return export_environment(env, actor, path)

    return export


def export_environment(env: Any, actor: torch.nn.Module, path: Path) -> Path:
    """Write an environment with its actor, and print nothing."""
    with contextlib.redirect_stdout(io.StringIO()):
        return export_environment_as_onnx(env, actor, path.parent, path.name)


def torchrl_policy(name: str) -> ExportFile:
    """Write one of the policies of TorchRL."""

    def export(path: Path) -> Path:
        torch.manual_seed(0)
        policy, example, transforms = POLICIES[name]()
        values = TensorDict(example, batch_size_of(example))
        with torch.no_grad():
            policy(values.clone() if transforms is None else transforms(values.clone()))
        return torchrl.export_policy(policy, values, path, transforms=transforms)

    return export


def network_of(width: int) -> ExportFile:
    """Write a network alone, with two hidden layers of some width."""

    def export(path: Path) -> Path:
        torch.manual_seed(0)
        network = MLP(NUM_OBSERVATIONS, NUM_ACTIONS, num_cells=[width, width], activation_class=torch.nn.ELU)
        policy = TensorDictModule(network, ["observation"], ["action"])
        example = TensorDict({"observation": torch.zeros(1, NUM_OBSERVATIONS)}, [1])
        return torchrl.export_policy(policy, example, path)

    return export


FILES: Mapping[str, ExportFile] = {
    "MLP 48-512-256-128-12": lambda path: export_environment(MlpEnvironment(), make_network(), path),
    "LSTM 128": robot_with(LstmActor),
    "GRU 128": robot_with(GruActor),
    "transformer 16 x 64": torchrl_policy("transformer 16 x 64"),
    "Pong": torchrl_policy("Pong"),
    "G1-sized, LSTM 256": lambda path: export_environment(*make_humanoid(), path),
}


def programs(files: Mapping[str, ExportFile], folder: Path, compiler: Compiler) -> Iterable[tuple[str, Program]]:
    """Export and compile files one by one."""
    for number, (name, export) in enumerate(files.items()):
        yield name, Program.of(export(folder / f"file_{number}"), compiler)
