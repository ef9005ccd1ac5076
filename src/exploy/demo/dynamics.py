"""The cart-pole dynamics as pure functions of tensors, used by the environment and by training.

The first dimension of all tensors is the batch. Functions do not modify their arguments and are differentiable.
NaN inputs give NaN outputs. Wrong shapes raise torch's RuntimeError.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class CartPoleParameters:
    """Physical parameters and rates, in SI units."""

    cart_mass: float = 1.0
    pole_mass: float = 0.1
    pole_half_length: float = 0.5
    gravity: float = 9.81
    force_limit: float = 10.0
    force_scale: float = 10.0  # force for an action of 1
    actuator_gain: float = 0.3  # fraction of the force error that is corrected per simulation step
    actuator_damping: float = 0.5  # N per m/s of cart velocity
    sim_dt: float = 0.005
    decimation: int = 4

    @property
    def policy_dt(self) -> float:
        """Time between two policy steps."""
        return self.sim_dt * self.decimation


def observe(
    cart: torch.Tensor, pole: torch.Tensor, command: torch.Tensor, action_history: torch.Tensor
) -> torch.Tensor:
    """The observation: position error, cart velocity, sine and cosine of the angle, its rate, history."""
    position, velocity = cart[:, 0:1], cart[:, 1:2]
    angle, angular_velocity = pole[:, 0:1], pole[:, 1:2]
    parts = [position - command, velocity, angle.sin(), angle.cos(), angular_velocity, action_history]
    return torch.cat(parts, dim=-1)


def roll_history(action_history: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """Put the newest actions first and drop the oldest."""
    return torch.cat([actions, action_history[:, :-1]], dim=-1)


def target_force(actions: torch.Tensor, parameters: CartPoleParameters) -> torch.Tensor:
    """The target force for raw actions, which are clamped to ±1."""
    return actions.clamp(-1.0, 1.0) * parameters.force_scale


def actuate(
    actuator_force: torch.Tensor, target: torch.Tensor, cart: torch.Tensor, parameters: CartPoleParameters
) -> tuple[torch.Tensor, torch.Tensor]:
    """One simulation step of the actuator, which lags behind its target and is damped by the cart velocity.

    Returns:
        The next actuator force, which is its state, and the limited force applied to the cart.
    """
    next_force = actuator_force + (target - actuator_force) * parameters.actuator_gain
    damped = next_force - parameters.actuator_damping * cart[:, 1:2]
    return next_force, damped.clamp(-parameters.force_limit, parameters.force_limit)


def simulate(
    cart: torch.Tensor, pole: torch.Tensor, force: torch.Tensor, parameters: CartPoleParameters
) -> tuple[torch.Tensor, torch.Tensor]:
    """Simulate cart and pole for one simulation step, with semi-implicit Euler integration.

    Args:
        cart: Position and velocity.
        pole: Angle from upright (positive if the pole leans forward) and angular velocity.
        force: Horizontal force on the cart.
        parameters: Physical parameters.
    """
    acceleration, angular_acceleration = _accelerations(pole, force, parameters)
    return (
        _integrate(cart, acceleration, parameters.sim_dt),
        _integrate(pole, angular_acceleration, parameters.sim_dt),
    )


def _accelerations(
    pole: torch.Tensor, force: torch.Tensor, parameters: CartPoleParameters
) -> tuple[torch.Tensor, torch.Tensor]:
    total_mass = parameters.cart_mass + parameters.pole_mass
    pole_moment = parameters.pole_mass * parameters.pole_half_length
    angle, angular_velocity = pole[:, 0:1], pole[:, 1:2]
    sine, cosine = angle.sin(), angle.cos()
    push = (force + pole_moment * angular_velocity.square() * sine) / total_mass
    inertia = parameters.pole_half_length * (4.0 / 3.0 - parameters.pole_mass * cosine.square() / total_mass)
    angular_acceleration = (parameters.gravity * sine - cosine * push) / inertia
    acceleration = push - pole_moment * angular_acceleration * cosine / total_mass
    return acceleration, angular_acceleration


def _integrate(state: torch.Tensor, acceleration: torch.Tensor, dt: float) -> torch.Tensor:
    velocity = state[:, 1:2] + acceleration * dt
    return torch.cat([state[:, 0:1] + velocity * dt, velocity], dim=-1)
