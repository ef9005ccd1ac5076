"""Train the policy of the cart-pole: `python -m tools.train_demo_policy`.

The cost of short rollouts is differentiated through the simulator. Training takes a little more than a
minute on one core. It is deterministic for the same seed, machine and torch version.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from exploy.demo import dynamics
from exploy.demo.cart_pole import COMMAND_LIMIT, EPISODE_STEPS, HISTORY_LENGTH, CartPole
from exploy.demo.dynamics import CartPoleParameters
from exploy.demo.policy import WEIGHTS_FILE, CartPoleActor

BATCH_SIZE = 256
ITERATIONS = 200
HORIZON = 100
LEARNING_RATE = 5e-3
GRADIENT_NORM_LIMIT = 1.0
NORMALISER_SAMPLES = 10_000

POSITION_SPREAD = 1.5
VELOCITY_SPREAD = 0.5
ANGLE_SPREAD = 0.2
ANGULAR_VELOCITY_SPREAD = 0.5


@dataclass(frozen=True)
class RolloutState:
    """The state that a policy step reads and changes."""

    cart: torch.Tensor
    pole: torch.Tensor
    command: torch.Tensor
    action_history: torch.Tensor
    actuator_force: torch.Tensor

    def observe(self) -> torch.Tensor:
        """The observations of this state."""
        return dynamics.observe(self.cart, self.pole, self.command, self.action_history)


@dataclass(frozen=True)
class Evaluation:
    """Results of a policy over complete episodes."""

    standing: float
    """Fraction of episodes in which the pole was balanced until the end."""
    at_command: float
    """Fraction of episodes in which the pole was balanced and the cart ended within 0.1 m of its command."""
    largest_error: float
    """Largest distance in m between cart and command at the end of an episode."""


def draw_states(count: int, parameters: CartPoleParameters, generator: torch.Generator) -> RolloutState:
    """Draw states that are typical for the middle of episodes, with a wider spread than resets."""

    def uniform(*spreads: float) -> torch.Tensor:
        sample = 2.0 * torch.rand(count, len(spreads), generator=generator) - 1.0
        return sample * torch.tensor(spreads)

    action_history = uniform(*[1.0] * HISTORY_LENGTH)
    return RolloutState(
        cart=uniform(POSITION_SPREAD, VELOCITY_SPREAD),
        pole=uniform(ANGLE_SPREAD, ANGULAR_VELOCITY_SPREAD),
        command=uniform(COMMAND_LIMIT),
        action_history=action_history,
        actuator_force=dynamics.target_force(action_history[:, 0:1], parameters),
    )


def policy_step(state: RolloutState, actions: torch.Tensor, parameters: CartPoleParameters) -> RolloutState:
    """The state after one policy step. Episodes do not end."""
    cart, pole, actuator_force = state.cart, state.pole, state.actuator_force
    target = dynamics.target_force(actions, parameters)
    for _ in range(parameters.decimation):
        actuator_force, applied_force = dynamics.actuate(actuator_force, target, cart, parameters)
        cart, pole = dynamics.simulate(cart, pole, applied_force, parameters)
    action_history = dynamics.roll_history(state.action_history, actions)
    return RolloutState(cart, pole, state.command, action_history, actuator_force)


def step_cost(state: RolloutState, actions: torch.Tensor) -> torch.Tensor:
    """The cost of the actions and the resulting state; one number for each element of the batch."""
    # Nearly linear for large values, so that fallen poles do not dominate. Small position errors still have a cost.
    position_error = _distance(state.cart[:, 0:1] - state.command, 0.05)
    angle = _distance(state.pole[:, 0:1], 0.1)
    velocity = _distance(state.cart[:, 1:2], 1.0)
    angular_velocity = _distance(state.pole[:, 1:2], 1.0)
    change = (actions - state.action_history[:, 1:2]).square()
    # The clamp has no gradient beyond ±1; this term moves such actions back.
    excess = (actions.abs() - 1.0).clamp(min=0.0)
    cost = position_error + angle + 0.1 * velocity + 0.1 * angular_velocity + 0.05 * change + excess
    return cost.squeeze(-1)


def _distance(value: torch.Tensor, bend: float) -> torch.Tensor:
    return (value.square() + bend**2).sqrt() - bend


def rollout_cost(
    actor: CartPoleActor, state: RolloutState, horizon: int, parameters: CartPoleParameters
) -> torch.Tensor:
    """The mean cost over `horizon` policy steps of the actor; differentiable."""
    costs = []
    for _ in range(horizon):
        actions = actor(state.observe())
        state = policy_step(state, actions, parameters)
        costs.append(step_cost(state, actions))
    return torch.stack(costs).mean()


def train(seed: int, iterations: int = ITERATIONS) -> CartPoleActor:
    """Train an actor from scratch. Seeds torch's global generator, which draws the initial weights."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    parameters = CartPoleParameters()
    actor = CartPoleActor()
    actor.fit_normaliser(draw_states(NORMALISER_SAMPLES, parameters, generator).observe())
    optimizer = torch.optim.Adam(actor.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, iterations)
    for iteration in range(iterations):
        start = draw_states(BATCH_SIZE, parameters, generator)
        cost = rollout_cost(actor, start, HORIZON, parameters)
        optimizer.zero_grad()
        cost.backward()
        torch.nn.utils.clip_grad_norm_(actor.parameters(), GRADIENT_NORM_LIMIT, error_if_nonfinite=True)
        optimizer.step()
        schedule.step()
        if iteration % 20 == 0 or iteration == iterations - 1:
            print(f"iteration {iteration:3d}: cost {cost.item():.4f}", flush=True)
    return actor.eval()


@torch.no_grad()
def evaluate_actor(actor: CartPoleActor, seed: int, episodes: int = 100) -> Evaluation:
    """Run the actor in the environment for full episodes."""
    # One step more than is run, so that the environment does not reset the states to evaluate.
    env = CartPole(batch_size=episodes, seed=seed, episode_steps=EPISODE_STEPS + 1)
    observations = env.compute_observations()
    for _ in range(EPISODE_STEPS):
        observations, _ = env.step(actor(observations))
    standing = env.steps_in_episode == EPISODE_STEPS
    error = (env.cart - env.command)[:, 0].abs()
    return Evaluation(
        standing=standing.float().mean().item(),
        at_command=(standing & (error < 0.1)).float().mean().item(),
        largest_error=error.max().item(),
    )


def save_weights(actor: CartPoleActor, path: Path) -> None:
    """Write the weights as a numpy archive.

    Raises:
        OSError: If the file cannot be written.
    """
    state = {name: tensor.numpy() for name, tensor in actor.state_dict().items()}
    np.savez(path, **state)


def main() -> None:
    """Train, write the weights and print an evaluation with resets that were not used in training."""
    parser = argparse.ArgumentParser(description="Train the policy of the cart-pole demo.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path(dynamics.__file__).parent / WEIGHTS_FILE)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    actor = train(arguments.seed)
    save_weights(actor, arguments.output)
    evaluation = evaluate_actor(actor, seed=arguments.seed + 1)
    print(f"wrote {arguments.output}")
    print(f"balanced for 10 s: {evaluation.standing:.0%} of 100 episodes")
    print(f"balanced, and within 0.1 m of the command: {evaluation.at_command:.0%}")
    print(f"largest distance to the command: {evaluation.largest_error:.3f} m")


if __name__ == "__main__":
    main()
