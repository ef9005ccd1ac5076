"""Lets an exported file balance the cart-pole: sensor values in, forces out, memories fed back."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from exploy.contract import STEP_COUNT, Contract
from exploy.demo import dynamics
from exploy.demo.cart_pole import ANGLE_LIMIT, CartPole
from exploy.exporter.core.session_wrapper import SessionWrapper


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
        FileFormatError: If the file cannot be loaded or was not made by exploy.
    """
    env = CartPole(seed=seed)
    cart, pole, command = env.cart.clone(), env.pole.clone(), env.command.clone()
    driver = _Driver(path)
    largest_angle = 0.0
    for _ in range(round(seconds / env.parameters.sim_dt)):
        force = driver.force(cart=cart.numpy(), pole=pole.numpy(), command=command.numpy())
        cart, pole = dynamics.simulate(cart, pole, torch.from_numpy(force), env.parameters)
        largest_angle = max(largest_angle, abs(float(pole[0, 0])))
    return Balance(
        stood=largest_angle <= ANGLE_LIMIT,
        largest_angle=largest_angle,
        final_error=abs(float(cart[0, 0] - command[0, 0])),
    )


class _Driver:
    """The file, ticked once a simulation step."""

    def __init__(self, path: Path):
        self._session = SessionWrapper(path.parent, path.name, optimize=False)
        contract = self._session.contract
        assert isinstance(contract, Contract)
        self._links = {memory.input: memory.output for memory in contract.memories}
        self._memories = {memory.input: memory.initial_value() for memory in contract.memories}
        self._tick = 0

    def force(self, **sensors: np.ndarray) -> np.ndarray:
        self._session(**sensors, **self._memories, **{STEP_COUNT: np.array(self._tick, dtype=np.int32)})
        self._memories = {name: self._session.get_output_value(output) for name, output in self._links.items()}
        self._tick += 1
        return self._session.get_output_value("force")
