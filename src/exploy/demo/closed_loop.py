"""Balances the cart-pole with an exported file, which reads sensor values and returns forces."""

from dataclasses import dataclass
from pathlib import Path

import torch

from exploy.demo import dynamics
from exploy.demo.cart_pole import ANGLE_LIMIT, CartPole
from exploy.runtime.controller import Controller


@dataclass(frozen=True)
class Balance:
    """Result of a run."""

    stood: bool
    largest_angle: float
    final_error: float


def balance(path: Path, seconds: float, seed: int) -> Balance:
    """Simulate a cart-pole that is controlled only by an exported file.

    The environment provides the initial state. Its observation, action and actuator code does not run.

    Raises:
        ContractError: If the file cannot be loaded or was not exported by exploy.
    """
    env = CartPole(seed=seed)
    cart, pole, command = env.cart.clone(), env.pole.clone(), env.command.clone()
    controller = Controller.load(path)
    largest_angle = 0.0
    for _ in range(round(seconds / env.parameters.sim_dt)):
        outputs = controller.step({"cart": cart.numpy(), "pole": pole.numpy(), "command": command.numpy()})
        cart, pole = dynamics.simulate(cart, pole, torch.from_numpy(outputs["force"]), env.parameters)
        largest_angle = max(largest_angle, abs(float(pole[0, 0])))
    return Balance(
        stood=largest_angle <= ANGLE_LIMIT,
        largest_angle=largest_angle,
        final_error=abs(float(cart[0, 0] - command[0, 0])),
    )
