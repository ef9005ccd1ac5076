"""Compares TorchRL policies in eager mode and exported for each backend: latency, cold start, memory and size.

All candidates use one thread, in interleaved rounds in one process. Cold start and memory use separate processes.

    python -m benchmarks.backends
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.data import Categorical
from torchrl.envs import Compose, ExplorationType, GrayScale, Resize, ToTensorImage, set_exploration_type
from torchrl.modules import MLP, ConvNet, EGreedyModule, LSTMModule, QValueModule

from benchmarks.torchvision_beside_torch import import_torchvision
from exploy.exporter.frameworks import torchrl
from exploy.runtime import Controller

BACKENDS = ("onnx", "aot_inductor", "torch_export")
ROUNDS, TICKS, WARM_UP = 20, 50, 20
_COLD_START = """
import sys, time, json
started = float(sys.argv[2])
import numpy as np
if sys.argv[3] == "torch":
    import torch
    torch.set_num_threads(1)
from exploy.runtime import Controller
controller = Controller.load(sys.argv[1], allow_code=True)
controller.step({name: np.zeros(array.shape, array.dtype) for name, array in controller.inputs.items()})
seconds = time.time() - started
resident = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([seconds, int(resident.split()[1]) / 1024]))
"""


class Transformer(torch.nn.Module):
    """Computes actions from the last 16 observations of a robot."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(48, 64)
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(64, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute actions from a history."""
        actions: torch.Tensor = self.head(self.encoder(self.embed(x))[..., -1, :])
        return actions


def mlp() -> tuple[Any, dict[str, torch.Tensor], Any]:
    network = MLP(48, 12, num_cells=[512, 256, 128], activation_class=torch.nn.ELU)
    return TensorDictModule(network, ["observation"], ["action"]), {"observation": torch.zeros(1, 48)}, None


def lstm() -> tuple[Any, dict[str, torch.Tensor], Any]:
    recurrent = LSTMModule(48, 256, in_key="observation", out_key="features")
    head = TensorDictModule(MLP(256, 12, num_cells=[128]), ["features"], ["action"])
    example = {"observation": torch.zeros(1, 48), "is_init": torch.zeros(1, 1, dtype=torch.bool)}
    example |= {name: torch.zeros(1, 1, 256) for name in ("recurrent_state_h", "recurrent_state_c")}
    return TensorDictSequential(recurrent, head), example, None


def transformer() -> tuple[Any, dict[str, torch.Tensor], Any]:
    return TensorDictModule(Transformer(), ["history"], ["action"]), {"history": torch.zeros(1, 16, 48)}, None


def pong() -> tuple[Any, dict[str, torch.Tensor], Any]:
    import_torchvision()
    value = TensorDictModule(ConvNet.default_atari_dqn(num_actions=6), ["pixels"], ["action_value"])
    spec = Categorical(6)
    policy = TensorDictSequential(value, QValueModule(spec=spec), EGreedyModule(spec))  # as the tutorial exports it
    transforms = Compose(ToTensorImage(), Resize(84, interpolation="nearest"), GrayScale())
    return policy, {"pixels": torch.zeros(210, 160, 3, dtype=torch.uint8)}, transforms


POLICIES: dict[str, Callable[[], tuple[Any, dict[str, torch.Tensor], Any]]] = {
    "Pong": pong,
    "MLP 48-512-256-128-12": mlp,
    "LSTM 256": lstm,
    "transformer 16 x 64": transformer,
}


def eager_of(policy: Any, example: dict[str, torch.Tensor], transforms: Any) -> Callable[[], None]:
    """The policy as TorchRL runs it: it takes a tensordict and adds the action to it."""
    policy = policy.eval()
    state = dict(example)

    def run() -> None:
        values = TensorDict(state, batch_size_of(example))
        values = policy(values if transforms is None else transforms(values))
        for name in state:
            if ("next", name) in values.keys(include_nested=True):
                state[name] = values["next", name]

    return run


def batch_size_of(example: dict[str, torch.Tensor]) -> list[int]:
    """The batch size: none for single images of gymnasium environments, one for robots."""
    return [] if "pixels" in example else [1]


def ticks_of(path: Path) -> Callable[[], None]:
    controller = Controller.load(path, allow_code=True)
    for array in controller.inputs.values():
        array[...] = 0
    return controller.tick


def durations(run: Callable[[], None]) -> list[float]:
    times = []
    for _ in range(TICKS):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return times


def cold_start(path: Path, needs: str) -> tuple[float, float]:
    """Seconds from the start of a process to the first action, and its peak memory in MB."""
    arguments = [sys.executable, "-c", _COLD_START, str(path), str(time.time()), needs]
    result = subprocess.run(arguments, capture_output=True, text=True, check=True)
    seconds, megabytes = json.loads(result.stdout)
    return seconds, megabytes


def measure(name: str, folder: Path, table: Table) -> None:
    torch.manual_seed(0)
    policy, example, transforms = POLICIES[name]()
    values = TensorDict(example, batch_size_of(example))
    with torch.no_grad():
        policy(values.clone() if transforms is None else transforms(values.clone()))
    files = {
        backend: torchrl.export_policy(policy, values, folder / backend, transforms=transforms, backend=backend)
        for backend in BACKENDS
    }
    runs = {backend: ticks_of(path) for backend, path in files.items()}
    runs["eager TorchRL"] = eager_of(policy, example, transforms)
    times: dict[str, list[float]] = {run: [] for run in runs}
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        for round_ in range(-WARM_UP // 10, ROUNDS):
            for run, function in runs.items():
                measured = durations(function)
                times[run] += measured if round_ >= 0 else []
    ours = float(np.median(times["onnx"]))
    for run, measured in times.items():
        p50, p99 = (1e6 * float(np.percentile(measured, q)) for q in (50, 99))
        start = memory = size = ""
        if run in files:
            seconds, megabytes = cold_start(files[run], "onnx" if run == "onnx" else "torch")
            start, memory = f"{seconds:.2f} s", f"{megabytes:.0f} MB"
            size = f"{files[run].stat().st_size / 1024:.0f} KiB"
        label = f"{run} (ours)" if run == "onnx" else run
        table.add_row(name, label, f"{p50:.0f}", f"{p99:.0f}", f"{p50 / (1e6 * ours):.2f}", start, memory, size)
        name = ""


def main() -> None:
    torch.set_num_threads(1)
    table = Table("policy", "runner", "p50 µs", "p99 µs", "of ours", "cold start", "memory", "file")
    with tempfile.TemporaryDirectory() as folder:
        for index, name in enumerate(POLICIES):
            measure(name, Path(folder) / str(index), table)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
