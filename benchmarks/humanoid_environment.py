"""An environment of the size of a Unitree G1: 30 joints, 15 steps of history, 187 heights, an LSTM, PD torques."""

from typing import Any

import torch

from exploy.exporter.core.actor import ExportableActor, add_actor_memory
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.exportable_environment import ExportableEnvironment

NUM_JOINTS, NUM_HEIGHTS, HISTORY, HIDDEN = 30, 187, 15, 256
STACKED_WIDTHS = {
    "joint_position": NUM_JOINTS,
    "joint_velocity": NUM_JOINTS,
    "action": NUM_JOINTS,
    "angular_velocity": 3,
    "gravity": 3,
    "command": 3,
}
NUM_OBSERVATIONS = HISTORY * sum(STACKED_WIDTHS.values()) + NUM_HEIGHTS
TIME_STEP, EPISODE_STEPS = 0.005, 100


def initial_state() -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden and cell state of the LSTM at the start of an episode."""
    return torch.zeros(1, 1, HIDDEN), torch.zeros(1, 1, HIDDEN)


class HumanoidNetwork(torch.nn.Module):
    """An LSTM and a head: the network of `HumanoidActor`, as a function of observations and state."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self._lstm = torch.nn.LSTM(NUM_OBSERVATIONS, HIDDEN)
        self._head = torch.nn.Linear(HIDDEN, NUM_JOINTS)

    def forward(
        self, observations: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute actions and the next state."""
        features, (hidden, cell) = self._lstm(observations.unsqueeze(0), (hidden, cell))
        return self._head(features.squeeze(0)), hidden, cell


class HumanoidActor(ExportableActor):
    """The policy, which keeps the state of its LSTM between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.network = HumanoidNetwork()
        self._state = initial_state()

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Compute actions for a batch of observations."""
        actions: torch.Tensor
        actions, *state = self.network(observations, *self._state)
        self._state = (state[0], state[1])
        return actions

    def get_state(self) -> tuple[torch.Tensor, ...]:
        """Hidden and cell state."""
        return self._state

    def reset(self, dones: torch.Tensor) -> None:
        """Clear the state."""
        self._state = initial_state()


class HumanoidEnvironment(ExportableEnvironment):
    """Joints that follow PD torques. Their dynamics are simple, so that steps are cheap.

    Episodes end after `EPISODE_STEPS` policy steps. There is no `reset()`, so a check makes steps to see a reset.
    """

    def __init__(self) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(0)
        self._steps = 0
        self._hooks: tuple[Any, Any, Any] | None = None
        self.joint_position = torch.zeros(1, NUM_JOINTS)
        self.joint_velocity = torch.zeros(1, NUM_JOINTS)
        self.angular_velocity = torch.zeros(1, 3)
        self.gravity = torch.tensor([[0.0, 0.0, -1.0]])
        self.command = torch.zeros(1, 3)
        self.heights = torch.zeros(1, NUM_HEIGHTS)
        self.default_position = 0.2 * self._random(NUM_JOINTS)
        self.stiffness = 40 + 10 * self._random(NUM_JOINTS)
        self.damping = 2 + 0.5 * self._random(NUM_JOINTS)
        self.history = {name: torch.zeros(1, HISTORY, width) for name, width in STACKED_WIDTHS.items()}
        self.last_actions = torch.zeros(1, NUM_JOINTS)
        self.targets = torch.zeros(1, NUM_JOINTS)
        self.torques = torch.zeros(1, NUM_JOINTS)
        self._restart()

    def register(self) -> None:
        """Register all components, but for the state of the actor."""
        manager = self.context_manager()
        for name in ("joint_position", "joint_velocity", "angular_velocity", "gravity", "command", "heights"):
            manager.add_component(Input(name, lambda name=name: getattr(self, name)))  # type: ignore[misc]
        for name in self.history:
            manager.add_component(Memory(f"history_{name}", lambda name=name: self.history[name]))  # type: ignore[misc]
        manager.add_components(
            [
                Memory("last_actions", lambda: self.last_actions),
                Memory("targets", lambda: self.targets),
                Output("torques", lambda: self.torques),
            ]
        )

    def compute_observations(self) -> torch.Tensor:
        """The last 15 values of what is measured, and the heights."""
        newest = {
            "joint_position": self.joint_position - self.default_position,
            "joint_velocity": 0.05 * self.joint_velocity,
            "action": self.last_actions,
            "angular_velocity": 0.25 * self.angular_velocity,
            "gravity": self.gravity,
            "command": self.command,
        }
        for name, value in newest.items():
            self.history[name] = torch.cat([self.history[name][:, 1:], value.unsqueeze(1)], dim=1)
        stacked = [values.flatten(1) for values in self.history.values()]
        return torch.cat([*stacked, self.heights.clip(-1.0, 1.0)], dim=-1)

    def process_actions(self, actions: torch.Tensor) -> None:
        """Store the actions, and filter the targets."""
        self.last_actions[:] = actions
        self.targets[:] = torch.lerp(self.targets, 0.25 * actions + self.default_position, 0.8)

    def apply_actions(self) -> None:
        """Compute the torques from the targets and the state of the joints."""
        error = self.targets - self.joint_position
        self.torques[:] = (self.stiffness * error - self.damping * self.joint_velocity).clip(-100.0, 100.0)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """Run one policy step with its sub-steps, and restart at the end of an episode."""
        update, reset, evaluate_substep = self._hooks or (lambda: None, lambda: None, lambda number: None)
        self.process_actions(actions)
        for number in range(self.decimation):
            self.apply_actions()
            evaluate_substep(number)
            self._move()
        self._steps += 1
        done = self._steps % EPISODE_STEPS == 0
        if done:
            self._restart()
            reset()
        update()
        return self.compute_observations(), done

    def _move(self) -> None:
        self.joint_velocity += TIME_STEP * (self.torques + self._random(NUM_JOINTS))
        self.joint_position += TIME_STEP * self.joint_velocity
        self.angular_velocity[:] = 0.1 * self._random(3)
        self.heights[:] = 0.1 * self._random(NUM_HEIGHTS)

    def _restart(self) -> None:
        for tensor in (*self.history.values(), self.last_actions, self.targets):
            tensor.zero_()
        self.joint_position[:] = self.default_position + 0.1 * self._random(NUM_JOINTS)
        self.joint_velocity[:] = 0.1 * self._random(NUM_JOINTS)
        self.gravity[:] = torch.tensor([[0.0, 0.0, -1.0]]) + 0.05 * self._random(3)
        self.command[:] = self._random(3)

    def _random(self, width: int) -> torch.Tensor:
        return torch.randn(1, width, generator=self._generator)

    def prepare_export(self) -> None:
        """Nothing to do."""

    def empty_actor_observations(self) -> torch.Tensor:
        """Zeros."""
        return torch.zeros(1, NUM_OBSERVATIONS)

    def empty_actions(self) -> torch.Tensor:
        """Zeros."""
        return torch.zeros(1, NUM_JOINTS)

    def metadata(self) -> dict[str, Any]:
        """Name of the environment, and its time step."""
        return {"env_name": "humanoid", "sim_dt": TIME_STEP}

    @property
    def decimation(self) -> int:
        """Simulation steps per policy step."""
        return 4

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        """Store the hooks, which `step()` calls."""
        self._hooks = (update, reset, evaluate_substep)

    def get_observation_names(self) -> list[str]:
        """Numbered names."""
        return [f"observation_{index}" for index in range(NUM_OBSERVATIONS)]

    def observations_reset(self) -> torch.Tensor:
        """Observations of the current state."""
        return self.compute_observations()


def make_humanoid() -> tuple[HumanoidEnvironment, HumanoidActor]:
    """The environment and its actor, whose state is registered as two more memories."""
    env, actor = make_bare_humanoid()
    env.register()
    add_actor_memory(env.context_manager(), actor.get_state)
    return env, actor


def make_bare_humanoid() -> tuple[HumanoidEnvironment, HumanoidActor]:
    """The same without any component."""
    return HumanoidEnvironment(), HumanoidActor().eval()
