"""A cart-pole environment in torch. It does not depend on exploy."""

from collections.abc import Callable

import torch

from exploy.demo import dynamics
from exploy.demo.dynamics import CartPoleParameters

ANGLE_LIMIT = 0.4
POSITION_LIMIT = 2.4
EPISODE_STEPS = 500
COMMAND_LIMIT = 1.0
HISTORY_LENGTH = 3
_RESET_SPREAD = 0.05


def _ignore() -> None:
    pass


def _ignore_substep(substep: int) -> None:
    pass


class CartPole:
    """A cart that balances a pole and moves to a commanded position.

    All state is in tensors that are updated in place and never replaced. When an episode ends, its batch
    element is reset within the same step. A state that is not finite also ends an episode.

    Args:
        batch_size: Number of cart-poles.
        seed: Random seed of the resets, which are deterministic for a given seed.
        episode_steps: Number of policy steps after which an episode ends.
        parameters: Physical parameters and rates.

    Raises:
        ValueError: If batch_size or episode_steps is less than 1.
    """

    def __init__(
        self,
        batch_size: int = 1,
        seed: int = 0,
        episode_steps: int = EPISODE_STEPS,
        parameters: CartPoleParameters | None = None,
    ) -> None:
        if batch_size < 1 or episode_steps < 1:
            raise ValueError(
                f"A CartPole needs a batch_size and episode_steps of 1 or more, got {batch_size} and {episode_steps}."
            )
        self.batch_size = batch_size
        self.parameters = parameters or CartPoleParameters()

        self.cart = torch.zeros(batch_size, 2)
        self.pole = torch.zeros(batch_size, 2)
        self.command = torch.zeros(batch_size, 1)
        self.action_history = torch.zeros(batch_size, HISTORY_LENGTH)
        self.target_force = torch.zeros(batch_size, 1)
        self.actuator_force = torch.zeros(batch_size, 1)
        self.applied_force = torch.zeros(batch_size, 1)
        self.steps_in_episode = torch.zeros(batch_size, dtype=torch.int64)

        self.on_substep: Callable[[int], None] = _ignore_substep
        """Called with the number of the sub-step after its actions are applied, before the simulator steps."""
        self.on_reset: Callable[[], None] = _ignore
        """Called right after a reset of at least one element of the batch."""
        self.on_update: Callable[[], None] = _ignore
        """Called when the state is final, before observations are computed from it."""

        self._episode_steps = episode_steps
        self._generator = torch.Generator().manual_seed(seed)
        self.reset()

    def compute_observations(self) -> torch.Tensor:
        """The observations of the current state, of shape (batch_size, 8)."""
        return dynamics.observe(self.cart, self.pole, self.command, self.action_history)

    def process_actions(self, actions: torch.Tensor) -> None:
        """Store raw actions and convert them to a target for the actuator; called once per policy step.

        Raises:
            RuntimeError: From torch, if the shape of the actions is not (batch_size, 1).
        """
        self.action_history[:] = dynamics.roll_history(self.action_history, actions)
        self.target_force[:] = dynamics.target_force(actions, self.parameters)

    def apply_actions(self) -> None:
        """Update the actuator force from its target and the cart velocity; called once per simulation step."""
        actuator_force, applied_force = dynamics.actuate(
            self.actuator_force, self.target_force, self.cart, self.parameters
        )
        self.actuator_force[:] = actuator_force
        self.applied_force[:] = applied_force

    @torch.no_grad()
    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """Step the environment by one policy step.

        An exception in a callback is not caught and leaves the step unfinished. Call reset() to recover.

        Returns:
            The next observations, and whether any element of the batch was reset.

        Raises:
            RuntimeError: From torch, if the shape of the actions is not (batch_size, 1).
        """
        self.process_actions(actions)
        for substep in range(self.parameters.decimation):
            self.apply_actions()
            self.on_substep(substep)
            self._simulate()
        self.steps_in_episode += 1
        ended = self._ended()
        any_ended = bool(ended.any())
        if any_ended:
            self.reset(ended)
        self.on_update()
        return self.compute_observations(), any_ended

    @torch.no_grad()
    def reset(self, which: torch.Tensor | None = None) -> None:
        """Start new episodes near the origin, with the pole nearly upright and a new command.

        Args:
            which: Flags of the elements to reset, of shape (batch_size,); None resets all.
        """
        if which is None:
            which = torch.ones(self.batch_size, dtype=torch.bool)
        self._overwrite(self.cart, which, self._draw(2, _RESET_SPREAD))
        self._overwrite(self.pole, which, self._draw(2, _RESET_SPREAD))
        self._overwrite(self.command, which, self._draw(1, COMMAND_LIMIT))
        for state in (self.action_history, self.target_force, self.actuator_force, self.applied_force):
            self._overwrite(state, which, torch.zeros_like(state))
        self.steps_in_episode[which] = 0
        self.on_reset()

    def _simulate(self) -> None:
        cart, pole = dynamics.simulate(self.cart, self.pole, self.applied_force, self.parameters)
        self.cart[:] = cart
        self.pole[:] = pole

    def _ended(self) -> torch.Tensor:
        # Written so that NaN, which compares as False, ends the episode.
        upright = self.pole[:, 0].abs() <= ANGLE_LIMIT
        on_track = self.cart[:, 0].abs() <= POSITION_LIMIT
        return ~(upright & on_track) | (self.steps_in_episode >= self._episode_steps)

    def _draw(self, width: int, spread: float) -> torch.Tensor:
        uniform = torch.rand(self.batch_size, width, generator=self._generator)
        return (2.0 * uniform - 1.0) * spread

    @staticmethod
    def _overwrite(state: torch.Tensor, which: torch.Tensor, values: torch.Tensor) -> None:
        state[:] = torch.where(which.unsqueeze(-1), values, state)
