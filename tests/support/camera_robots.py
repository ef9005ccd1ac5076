"""Robots whose observations are a vector and an image, in three builds, with policies that read both."""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tensordict import TensorDict

from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from tests.support.environments import TestEnvironment

SIZE = 24
NAMES = {"policy": ["angle", "speed", "last_0", "last_1"]}


class CameraPolicy(torch.nn.Module):
    """Reads a vector and two frames."""

    def __init__(self, frames: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolutions = torch.nn.Sequential(
            torch.nn.Conv2d(frames, 4, 3, stride=2), torch.nn.ELU(), torch.nn.Flatten()
        )
        self.head = torch.nn.Linear(4 * 11 * 11 + 4, 2)

    def forward(self, obs: Any) -> torch.Tensor:
        actions: torch.Tensor = self.head(torch.cat([self.convolutions(obs["camera"]), obs["policy"]], -1))
        return actions


class CameraRobot(TestEnvironment):
    """Calls its hooks, has sub-steps, keeps the last action and the last frame, and computes a group for a critic."""

    def __init__(self) -> None:
        super().__init__()
        self.state = torch.tensor([[0.1, 0.2]])
        self.image = torch.rand(1, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
        self.frames = torch.zeros(1, 2, SIZE, SIZE)
        self.last = torch.zeros(1, 2)
        self.applied = torch.zeros(1, 2)
        self.friction = torch.tensor([[0.7]])
        self.context_manager().add_components(
            [
                Input("state", lambda: self.state),
                Input("image", lambda: self.image),
                Memory("frames", lambda: self.frames),
                Memory("last", lambda: self.last),
                Output("targets", lambda: self.applied),
            ]
        )

    def compute_observations(self) -> Any:
        self.frames = torch.cat([self.frames[:, 1:], self.image - 0.5], 1)
        return {"policy": torch.cat([self.state, self.last], -1), "camera": self.frames.clone()}

    def process_actions(self, actions: torch.Tensor) -> None:
        self.last[:] = actions
        self.targets[:] = actions.tanh()

    def apply_actions(self) -> None:
        self.applied[:] = self.targets - 0.1 * self.state

    def move(self) -> None:
        self.state += self.noise(self.state) + 0.01 * self.applied
        self.image += self.noise(self.image)

    def restart(self) -> None:
        self.state[:] = 0.1
        self.image[:] = 0.5

    def empty_actor_observations(self) -> Any:
        return {"policy": torch.zeros(1, 4), "camera": torch.zeros(1, 2, SIZE, SIZE)}

    def get_observation_names(self) -> Any:
        return NAMES


class TensorDictRobot(CameraRobot):
    """Returns a TensorDict, and one more group, which no policy reads, as training libraries do."""

    def compute_observations(self) -> Any:
        groups = super().compute_observations() | {"critic": torch.cat([self.state, self.friction], -1)}
        return TensorDict(groups, batch_size=[1])

    def empty_actor_observations(self) -> Any:
        return TensorDict(super().empty_actor_observations() | {"critic": torch.zeros(1, 3)}, batch_size=[1])

    def get_observation_names(self) -> Any:
        return {**NAMES, "critic": ["angle", "speed", "friction"]}


class GymCamera(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """A class of gymnasium with a space of observations for each group."""

    observation_space: Any = gym.spaces.Dict(
        {
            "policy": gym.spaces.Box(-np.inf, np.inf, (4,), np.float32),
            "camera": gym.spaces.Box(0, 255, (1, SIZE, SIZE), np.uint8),
        }
    )
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self) -> None:
        self.state = torch.zeros(1, 4)
        self.pixels = torch.zeros(1, 1, SIZE, SIZE, dtype=torch.uint8)
        self.motors = torch.zeros(1, 2)

    def observe(self) -> dict[str, torch.Tensor]:
        return {"policy": 2.0 * self.state, "camera": self.pixels.flip(-1)}

    def drive(self, action: torch.Tensor) -> None:
        self.motors[:] = action.clamp(-1.0, 1.0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.state[:] = 0.1
        self.pixels[:] = 7
        return {name: tensor[0].numpy() for name, tensor in self.observe().items()}, {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        self.drive(torch.from_numpy(action)[None])
        self.state += torch.from_numpy(self.np_random.normal(0, 0.1, (1, 4)).astype(np.float32))
        self.state[:, :2] += 0.1 * self.motors
        self.pixels[:] = torch.from_numpy(self.np_random.integers(0, 256, (1, 1, SIZE, SIZE), dtype=np.uint8))
        return {name: tensor[0].numpy() for name, tensor in self.observe().items()}, 0.0, False, False, {}


class GymCameraRobot(ExportableEnvironment):
    """An adapter around that class inside of its wrapper; no hooks, one rate."""

    def __init__(self) -> None:
        super().__init__()
        self.gym = gym.wrappers.TimeLimit(GymCamera(), max_episode_steps=23)
        self.robot: GymCamera = self.gym.unwrapped  # type: ignore[assignment]
        self.gym.reset(seed=0)
        self.context_manager().add_components(
            [
                Input("state", lambda: self.robot.state),
                Input("pixels", lambda: self.robot.pixels),
                Output("motors", lambda: self.robot.motors),
            ]
        )

    def compute_observations(self) -> Any:
        return self.robot.observe()

    def process_actions(self, actions: torch.Tensor) -> None:
        self.robot.drive(actions)

    def apply_actions(self) -> None:
        pass

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> Any:
        return {"policy": torch.zeros(1, 4), "camera": torch.zeros(1, 1, SIZE, SIZE, dtype=torch.uint8)}

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, 2)

    def metadata(self) -> dict[str, Any]:
        return {}

    @property
    def decimation(self) -> int:
        return 1

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        pass

    def step(self, actions: torch.Tensor) -> tuple[Any, bool]:
        observation, _, terminated, truncated, _ = self.gym.step(actions[0].numpy())
        if terminated or truncated:
            observation, _ = self.gym.reset()
        return {name: torch.from_numpy(array)[None] for name, array in observation.items()}, terminated or truncated

    def get_observation_names(self) -> Any:
        return NAMES

    def observations_reset(self) -> Any:
        return self.compute_observations()


class PixelPolicy(CameraPolicy):
    """Reads bytes."""

    def __init__(self) -> None:
        super().__init__(frames=1)

    def forward(self, obs: Any) -> torch.Tensor:
        return super().forward({"policy": obs["policy"], "camera": obs["camera"].float() / 255.0})


def camera_robot() -> tuple[CameraRobot, CameraPolicy]:
    return CameraRobot(), CameraPolicy()


BUILDS = {
    "hooked": camera_robot,
    "tensordict": lambda: (TensorDictRobot(), CameraPolicy()),
    "gymnasium": lambda: (GymCameraRobot(), PixelPolicy()),
}
