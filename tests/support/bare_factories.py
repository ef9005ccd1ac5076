"""Factories for `exploy discover`: environments in which nothing is registered, or not all."""

import torch

from exploy.exporter.core.components import Output
from tests.support.discovery_traps import resets, slices
from tests.support.discovery_traps.base import robot, small_actor

command_of_an_episode = robot(resets.CommandOfAnEpisode)
random_gains = robot(resets.RandomGains)
slice_of_the_state = robot(slices.SliceOfTheState)


def many_offsets():
    """Reads more constants than are shown."""

    class Offsets(slices.SliceOfTheState):
        def setup(self):
            super().setup()
            self.offsets = [torch.full((1, 2), 0.1 * number) for number in range(14)]

        def compute_observations(self):
            return super().compute_observations() - sum(self.offsets)

    return robot(Offsets)()


def half_registered():
    """One of its components is registered by the factory."""
    env = slices.SliceOfTheState()
    env.context_manager().add_component(Output("effort", lambda: env.torque, metadata={"unit": "Nm"}))
    return env, small_actor(env.width)


def talkative():
    """Prints while it is made."""
    print("made")
    return slice_of_the_state()


def immovable():
    """Raises while it steps."""

    class Immovable(slices.SliceOfTheState):
        def simulate(self):
            raise RuntimeError("the simulator is gone")

    return robot(Immovable)()
