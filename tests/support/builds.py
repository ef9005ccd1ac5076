"""One robot in four builds: hooked, around a class of gymnasium, in the manner of legged_gym, and of Isaac Lab.

A `Body` is the robot itself: two joints that a random walk moves. Tests make a subclass with a fault of it, and give it
to each build. The builds differ in who calls it, when, under which path, with hooks and without.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import exploy
from exploy.diagnosis.finding import Finding, FindingKind
from exploy.errors import UnregisteredStateError
from exploy.exporter.core.components import Input, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from tests.support.checking import check
from tests.support.environments import export

NUM_OBSERVATIONS = 4


class Body:
    """A sound robot. Its file needs the joint positions and velocities, and gives targets."""

    reset_every = 30

    def __init__(self) -> None:
        self._noise = torch.Generator().manual_seed(1)
        self.pos = torch.tensor([[0.1, 0.2]])
        self.vel = torch.tensor([[0.3, -0.1]])
        self.targets = torch.zeros(1, 2)
        self.setup()

    def setup(self) -> None:
        """Make more state."""

    def components(self) -> list[Any]:
        return [
            Input("pos", lambda: self.pos),
            Input("vel", lambda: self.vel),
            Output("targets", lambda: self.targets),
        ]

    def observe(self) -> torch.Tensor:
        """The observations; a part of the pipeline."""
        return torch.cat([self.pos, self.vel], -1)

    def accept(self, actions: torch.Tensor) -> None:
        """Process actions; a part of the pipeline."""
        self.targets[:] = actions

    def move(self) -> None:
        """Move the simulator by one policy step."""
        self.pos += 0.1 * self.vel + 0.01 * self.targets
        self.vel = 0.9 * self.vel + 0.1 * torch.randn(1, 2, generator=self._noise)

    def end_step(self) -> None:
        """What step() does after the simulator has moved, before observations are computed."""

    def restart(self) -> None:
        """What a reset does."""
        self.pos[:] = 0.3
        self.vel = torch.zeros(1, 2)


class _Adapter(ExportableEnvironment):
    """What all builds say in the same way; without hooks."""

    def __init__(self, body: Body):
        super().__init__()
        self._hooks: tuple[Callable[..., None], ...] = (_ignore, _ignore, _ignore)
        self.context_manager().add_components(body.components())

    def apply_actions(self) -> None:
        pass

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, NUM_OBSERVATIONS)

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def metadata(self) -> dict[str, Any]:
        return {}

    @property
    def decimation(self) -> int:
        return 1

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        pass

    def get_observation_names(self) -> list[str]:
        return [f"obs_{index}" for index in range(NUM_OBSERVATIONS)]

    def observations_reset(self) -> torch.Tensor:
        self.context_manager().write_connections()
        for update in self.command_updates:
            update()
        return self.compute_observations()


class Hooked(_Adapter):
    """Calls its hooks, and is reset by itself alone."""

    def __init__(self, body: Body):
        super().__init__(body)
        self.body = body
        self._steps = 0

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        self._hooks = (update, reset, evaluate_substep)

    def compute_observations(self) -> torch.Tensor:
        return self.body.observe()

    def process_actions(self, actions: torch.Tensor) -> None:
        self.body.accept(actions)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        update, reset, evaluate_substep = self._hooks
        self.process_actions(actions)
        self.apply_actions()
        evaluate_substep(0)
        self.body.move()
        self.body.end_step()
        self._steps += 1
        done = self._steps % self.body.reset_every == 0
        if done:
            self.body.restart()
            reset()
        update()
        return self.observations_reset(), done


class GymRobot(gym.Env[np.ndarray, np.ndarray]):
    """The robot as a class of gymnasium: actions and observations are arrays."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (NUM_OBSERVATIONS,), np.float32)
    action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, body: Body):
        self.body = body

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.body.restart()
        return self.body.observe()[0].numpy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.body.accept(torch.from_numpy(action)[None])
        self.body.move()
        self.body.end_step()
        return self.body.observe()[0].numpy(), 0.0, False, False, {}


class Gymnasium(_Adapter):
    """An adapter around an environment of gymnasium inside of its wrapper; no hooks."""

    def __init__(self, body: Body):
        super().__init__(body)
        self.gym = gym.wrappers.TimeLimit(GymRobot(body), max_episode_steps=body.reset_every)
        self.gym.reset(seed=0)

    def compute_observations(self) -> torch.Tensor:
        return self.gym.unwrapped.body.observe()  # type: ignore[attr-defined]

    def process_actions(self, actions: torch.Tensor) -> None:
        self.gym.unwrapped.body.accept(actions)  # type: ignore[attr-defined]

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        observation, _, terminated, truncated, _ = self.gym.step(actions[0].numpy())
        if terminated or truncated:
            observation, _ = self.gym.reset()
        return torch.from_numpy(observation)[None], terminated or truncated


class LeggedRobot:
    """The robot in the manner of legged_gym: buffers, a loop over the decimation, post_physics_step()."""

    def __init__(self, body: Body, decimation: int):
        self.body = body
        self.decimation = decimation
        self.obs_buf = torch.zeros(1, NUM_OBSERVATIONS)
        self.reset_buf = torch.zeros(1, dtype=torch.bool)
        self.episode_length_buf = torch.zeros(1, dtype=torch.long)
        self.actions = torch.zeros(1, 2)
        self.torques = torch.zeros(1, 2)

    def step(self, actions: torch.Tensor) -> None:
        self.pre_physics_step(actions)
        for _ in range(self.decimation):
            self.compute_torques()
        self.body.move()
        self.post_physics_step()

    def pre_physics_step(self, actions: torch.Tensor) -> None:
        self.actions = torch.clip(actions, -100.0, 100.0)
        self.body.accept(self.actions)

    def compute_torques(self) -> None:
        self.torques = 20.0 * (self.body.targets - self.body.pos) - 0.5 * self.body.vel

    def post_physics_step(self) -> None:
        self.episode_length_buf += 1
        self.body.end_step()
        self.reset_buf = self.episode_length_buf >= self.body.reset_every
        if self.reset_buf.any():
            self.reset_idx()
        self.obs_buf = self.body.observe()

    def reset_idx(self) -> None:
        self.episode_length_buf[:] = 0
        self.body.restart()


class LeggedGym(_Adapter):
    """An adapter around a class in the manner of legged_gym; no hooks, two sub-steps."""

    def __init__(self, body: Body):
        super().__init__(body)
        self.robot = LeggedRobot(body, decimation=2)
        self.context_manager().add_component(Output("torques", lambda: self.robot.torques))

    @property
    def decimation(self) -> int:
        return self.robot.decimation

    def compute_observations(self) -> torch.Tensor:
        return self.robot.body.observe()

    def process_actions(self, actions: torch.Tensor) -> None:
        self.robot.pre_physics_step(actions)

    def apply_actions(self) -> None:
        self.robot.compute_torques()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.robot.step(actions)
        return self.robot.obs_buf, bool(self.robot.reset_buf.any())


class ObservationManager:
    """Terms by name, in the manner of Isaac Lab."""

    def __init__(self, terms: dict[str, Callable[[], torch.Tensor]]):
        self._terms = terms

    def compute(self) -> torch.Tensor:
        return torch.cat([term() for term in self._terms.values()], -1)


class Managed(_Adapter):
    """In the manner of Isaac Lab: managers with terms, `reset()`, and hooks."""

    def __init__(self, body: Body):
        super().__init__(body)
        self.scene = {"robot": body}
        self.observation_manager = ObservationManager({"policy": body.observe})
        self.common_step_counter = 0

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        self._hooks = (update, reset, evaluate_substep)

    def compute_observations(self) -> torch.Tensor:
        return self.observation_manager.compute()

    def process_actions(self, actions: torch.Tensor) -> None:
        self.scene["robot"].accept(actions)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        self.process_actions(actions)
        self.apply_actions()
        self._hooks[2](0)
        self.scene["robot"].move()
        self.scene["robot"].end_step()
        self.common_step_counter += 1
        done = self.common_step_counter % self.scene["robot"].reset_every == 0
        if done:
            self.reset()
        self._hooks[0]()
        return self.observations_reset(), done

    def reset(self) -> None:
        self.scene["robot"].restart()
        self._hooks[1]()


BUILDS: dict[type[Any], str] = {
    Hooked: "env.body",
    Gymnasium: "env.gym.env.body",
    LeggedGym: "env.robot.body",
    Managed: "env.scene['robot']",
}
"""Each build, with the path of its body."""


def build(kind: type[Any], body: type[Body], warm: int = 0, actor: torch.nn.Module | None = None) -> Any:
    """A robot after some policy steps with zero actions, or with those of an actor."""
    env = kind(body())
    with torch.no_grad():
        for _ in range(warm):
            env.step(env.empty_actions() if actor is None else actor(env.observations_reset()))
    return env


def assert_found(
    env: ExportableEnvironment, actor: torch.nn.Module, kind: FindingKind, tensor: str, **options: Any
) -> Finding:
    """The check has an error of this kind that names the tensor or line."""
    found = check(env, actor, **options).errors
    named = [item for item in found if item.kind is kind and tensor in (item.tensor, item.where.partition(" (in ")[2])]
    assert named, found
    return named[0]


def assert_refused(env: ExportableEnvironment, actor: torch.nn.Module, folder: Path, tensor: str) -> None:
    """A strict export writes nothing, and names the tensor."""
    with pytest.raises(UnregisteredStateError) as raised:
        exploy.export(env, actor, folder / "strict.onnx")
    assert not (folder / "strict.onnx").exists()
    errors = raised.value.diagnosis.errors
    assert any(tensor in (item.tensor, item.where.partition(" (in ")[2]) for item in errors)


def assert_sound(env: ExportableEnvironment, actor: torch.nn.Module, folder: Path, steps: int = 60) -> None:
    """Neither the check nor a strict export objects, and the file agrees."""
    diagnosis = check(env, actor)
    assert diagnosis.ok, str(diagnosis)
    exploy.export(env, actor, folder / "strict.onnx")
    assert evaluates(env, actor, folder, steps)


def evaluates(env: ExportableEnvironment, actor: torch.nn.Module, folder: Path, steps: int = 60) -> bool:
    """Whether the file of an export that checks nothing agrees with the environment."""
    session = export(env, actor, folder, initial_memory="reset", verify_environment=False)
    ok, _ = evaluate(
        env,
        env.context_manager(),
        session,
        steps,
        verbose=False,
        pause_on_failure=False,
        reset_from_onnx_counter_steps=None,
    )
    return ok


def name_of(case: object) -> str:
    """A name for a case of a parametrised test: its build, or its body or actor."""
    return case.__name__ if isinstance(case, type) else str(case)


def _ignore(*_: object) -> None:
    pass
