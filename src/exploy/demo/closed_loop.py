"""Lets an exported file balance the cart-pole: sensor values in, forces out."""

from dataclasses import dataclass
from pathlib import Path

import torch

from exploy.demo import dynamics
from exploy.demo.cart_pole import ANGLE_LIMIT, CartPole
from exploy.runtime.controller import Controller


@dataclass(frozen=True)
class Balance:
    """How a run went."""

    stood: bool
    largest_angle: float
    final_error: float


def balance(path: Path, seconds: float, seed: int) -> Balance:
    """Simulate a cart-pole that is driven by a file and by nothing else of the environment.

    The environment gives the start and the sensor values; its observation, action and actuator code does not run.

    Raises:
        ContractError: If the file cannot be loaded or was not made by exploy.
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
