"""Tells whether a file is right: it computes what the environment computes, in states that it has not seen.

The file is run by plain onnxruntime. Inputs are read from the registered components at each tick. Memories are read
from the environment in a scattered state; in the steps after it, the file gets what it returned, as on a robot.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exploy.environment.components import Memory
from exploy.environment.exportable_environment import ExportableEnvironment
from tests.support.discovery_traps.base import TrapEnvironment
from tests.support.discovery_traps.trap import Trap, evaluate

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

STATES = 20
STEPS = 3  # in each state
TOLERANCE = 1e-5
_STEP_COUNT = "ctx.step_count"
_TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
    "tensor(int16)": np.int16, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_,
}  # fmt: skip

Values = dict[str, np.ndarray]


def differences(
    trap: Trap, env: ExportableEnvironment, actor: torch.nn.Module, file: str | os.PathLike[str]
) -> list[str]:
    """Compare a file with the environment that it was made from, on which its components are registered.

    The environment is stepped and scattered.

    Returns:
        One line for each difference; none if the file is right.
    """
    assert isinstance(env, TrapEnvironment)
    was_training = actor.training
    actor.eval()
    random = torch.Generator().manual_seed(3)
    lines: list[str] = []
    fed_back = _File(file, env)
    with torch.no_grad():
        for state in range(STATES):
            trap.scatter(env, random)
            fed_back.take_memories()
            for step in range(STEPS):
                for tick, expected in enumerate(_live_step(env, actor, trap, fed_back)):
                    where = f"state {state}, step {step}, tick {tick}"
                    lines += [f"{where}: {line}" for line in _differing(expected, fed_back.results)]
    actor.train(was_training)
    return lines


class _File:
    """A file with the values that it gets next; it is run with the inputs of that time."""

    def __init__(self, file: str | os.PathLike[str], env: ExportableEnvironment):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(Path(file).read_bytes(), options, ["CPUExecutionProvider"])
        self._manager = env.context_manager()
        self._ports = {port.name: port for port in self._session.get_inputs()}
        self._memories: Values = {
            name: np.zeros(port.shape, _TYPES[port.type])
            for name, port in self._ports.items()
            if name.startswith("memory.")
        }
        self.results: Values = {}

    def take_memories(self) -> None:
        """Take the registered memories from the environment; carried ones stay what the file has returned."""
        self._memories |= {
            item.input_name: _array(item.fetch())
            for item in self._manager.get_memory_components()
            if item.input_name in self._memories
        }

    def run(self, tick: int) -> None:
        """Read the inputs, compute one tick, and keep the memories for the next one."""
        inputs = {
            item.input_name: _array(item.fetch())
            for item in self._manager.get_input_components()
            if not isinstance(item, Memory)
        }
        values = inputs | self._memories | {_STEP_COUNT: np.array(tick, np.int32)}
        names = [port.name for port in self._session.get_outputs()]
        results = self._session.run(names, {name: values[name] for name in self._ports})
        self.results = dict(zip(names, results, strict=True))
        self._memories = {name: self.results[f"{name.removesuffix('.in')}.out"] for name in self._memories}


def _live_step(env: TrapEnvironment, actor: torch.nn.Module, trap: Trap, file: _File) -> Iterator[Values]:
    """Make a policy step with its sub-steps; the file is run before each. Yields what the environment has computed."""
    manager = env.context_manager()
    file.run(0)
    manager.write_connections()
    for command_update in env.command_updates:
        command_update()
    observations = env.compute_observations()
    observed = {name: _array(value) for name, value in _groups(observations)}
    actions = actor(observations)
    env.process_actions(actions)
    env.apply_actions()
    yield {**observed, "actions": _array(actions), **_outputs(env, actor, trap)}
    for tick in range(1, env.decimation):
        env.simulate()
        file.run(tick)
        manager.write_connections()
        env.apply_actions()
        yield _outputs(env, actor, trap)
    env.simulate()
    env.end_step()


def _groups(observations: Any, name: str = "obs") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(observations, torch.Tensor):
        yield name, observations
        return
    for key, value in observations.items():
        yield from _groups(value, f"{name}.{key}")


def _outputs(env: ExportableEnvironment, actor: torch.nn.Module, trap: Trap) -> Values:
    return {name: _array(evaluate(expression, env, actor)) for name, expression in trap.outputs.items()}


def _differing(expected: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray]) -> Iterator[str]:
    for name, value in expected.items():
        if name.startswith("obs.") and name not in got:
            continue  # a group that the actor does not read
        if name not in got:
            yield f"the file has no output {name!r}"
        elif value.shape != got[name].shape:
            yield f"{name} has shape {got[name].shape}, expected {value.shape}"
        elif not np.allclose(got[name], value, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            errors = np.abs(np.nan_to_num(got[name] - value.astype(np.float64), nan=np.inf))
            worst = np.unravel_index(int(errors.argmax()), errors.shape)
            place = list(map(int, worst))
            yield f"{name}{place} is {got[name][worst]:.6g}, expected {value[worst]:.6g}"


def _array(tensor: torch.Tensor) -> np.ndarray:
    return np.array(tensor.detach().cpu().numpy())
