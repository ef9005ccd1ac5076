"""The adapter that makes a CartPole exportable."""

from collections.abc import Callable

import torch

from exploy.demo.cart_pole import HISTORY_LENGTH, CartPole
from exploy.environment.components import Input, Memory, Output
from exploy.environment.exportable_environment import ExportableEnvironment


class ExportableCartPole(ExportableEnvironment):
    """Adapter of a CartPole for the exporter and the evaluator, with all components registered.

    Registering evaluation hooks replaces the callbacks of the CartPole. So use only one adapter per
    CartPole.
    """

    def __init__(self, env: CartPole) -> None:
        super().__init__()
        self._env = env
        self._register_components()

    @property
    def env(self) -> CartPole:
        """The wrapped environment."""
        return self._env

    def compute_observations(self) -> torch.Tensor:
        """The observations of the current state."""
        return self.env.compute_observations()

    def process_actions(self, actions: torch.Tensor) -> None:
        """Convert raw actions to a target for the actuator.

        Raises:
            RuntimeError: From torch, if the actions have the wrong shape.
        """
        self.env.process_actions(actions)

    def apply_actions(self) -> None:
        """Compute the force on the cart for one simulation step."""
        self.env.apply_actions()

    def prepare_export(self) -> None:
        """Start a new episode, so that the memories have the initial values for a controller."""
        self.env.reset()

    def empty_actor_observations(self) -> torch.Tensor:
        """Zeros with the shape of the observations."""
        return torch.zeros(self.env.batch_size, len(self.get_observation_names()))

    def empty_actions(self) -> torch.Tensor:
        """Zeros with the shape of the actions."""
        return torch.zeros(self.env.batch_size, 1)

    def metadata(self) -> dict[str, str]:
        """Name of the environment, and its time steps in seconds."""
        parameters = self.env.parameters
        return {
            "env_name": "CartPole",
            "sim_dt": str(parameters.sim_dt),
            "policy_dt": str(parameters.policy_dt),
        }

    @property
    def decimation(self) -> int:
        """Number of simulation steps per policy step."""
        return self.env.parameters.decimation

    def register_evaluation_hooks(
        self,
        update: Callable[[], None],
        reset: Callable[[], None],
        evaluate_substep: Callable[[int], None],
    ) -> None:
        """Make the environment call these functions while it steps, instead of those registered before."""
        self.env.on_update = update
        self.env.on_reset = reset
        self.env.on_substep = evaluate_substep

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """Step the environment by one policy step; an exception in a hook is not caught.

        Raises:
            RuntimeError: From torch, if the actions have the wrong shape.
        """
        return self.env.step(actions)

    def get_observation_names(self) -> list[str]:
        """One name for each element of the observation."""
        state_names = [
            "cart_position_error",
            "cart_velocity",
            "pole_angle_sin",
            "pole_angle_cos",
            "pole_angular_velocity",
        ]
        return state_names + [f"action_{age}_steps_ago" for age in range(1, HISTORY_LENGTH + 1)]

    def observations_reset(self) -> torch.Tensor:
        """Call the update hook, then compute the observations of the current state."""
        self.env.on_update()
        return self.compute_observations()

    def _register_components(self) -> None:
        force_limit = self.env.parameters.force_limit
        self.context_manager().add_components(
            [
                Input(
                    name="cart",
                    get_from_env_cb=lambda: self.env.cart,
                    metadata={
                        "description": "Position and velocity of the cart.",
                        "names": ["position", "velocity"],
                        "units": ["m", "m/s"],
                    },
                ),
                Input(
                    name="pole",
                    get_from_env_cb=lambda: self.env.pole,
                    metadata={
                        "description": "Angle of the pole from upright, and its angular velocity.",
                        "names": ["angle", "angular_velocity"],
                        "units": ["rad", "rad/s"],
                    },
                ),
                Input(
                    name="command",
                    get_from_env_cb=lambda: self.env.command,
                    metadata={
                        "description": "Position for the cart to stand at.",
                        "names": ["position"],
                        "unit": "m",
                        "kind": "command",
                    },
                ),
                Output(
                    name="force",
                    get_from_env_cb=lambda: self.env.applied_force,
                    metadata={
                        "description": "Horizontal force to apply to the cart.",
                        "names": ["force"],
                        "unit": "N",
                        "kind": "force",
                        "limits": [[-force_limit, force_limit]],
                    },
                ),
                Memory(name="action_history", get_from_env_cb=lambda: self.env.action_history),
                Memory(name="actuator_force", get_from_env_cb=lambda: self.env.actuator_force),
            ]
        )
