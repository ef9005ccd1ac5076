"""Factories for the command line: environments that are complete, or lack something."""

import torch

from exploy.exporter.core.components import Input
from exploy.exporter.core.context_manager import ContextManager
from tests.support.environments import make_actor
from tests.support.robot import Robot, RobotInSimulation


def robot():
    """The robot with everything registered."""
    return Robot(), make_actor(13, 3)


def robot_in_simulation():
    """The robot with inputs that it cannot have."""
    return RobotInSimulation(), make_actor(13, 3)


def other_robot():
    """The same robot with another policy."""
    torch.manual_seed(5)
    return Robot(), torch.nn.Sequential(torch.nn.Linear(13, 16), torch.nn.ELU(), torch.nn.Linear(16, 3))


def forgetful_robot():
    """The robot without its velocities."""
    env = Robot()
    complete = env.context_manager()
    env._context_manager = ContextManager()
    parts = [item for item in complete._components.values() if item.short_name not in ("pos", "vel")]
    for part in parts:
        part._is_registered = False
    env.context_manager().add_components(parts)
    env.context_manager().add_component(Input("joints.pos", lambda: env.pos))
    return env, make_actor(13, 3)


def robot_without_file_form():
    """The robot with a policy that has no ONNX form."""

    class Bessel(torch.nn.Module):
        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            return torch.special.i0e(observations[:, :3])

    return Robot(), Bessel()


def moved_robot():
    """The robot in the middle of an episode."""
    env, actor = robot()
    env.prepare_export()
    with torch.no_grad():
        for _ in range(5):
            env.step(torch.ones(1, 3))
    return env, actor


def sampling_robot():
    """The robot with an actor that draws random numbers."""

    class Sampling(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.linear = torch.nn.Linear(13, 3)

        def forward(self, obs):
            mean = self.linear(obs)
            return mean + 0.1 * torch.randn_like(mean)

    return Robot(), Sampling()


def only_an_environment():
    """Not what is asked for."""
    return Robot()


def broken():
    """Raises."""
    raise RuntimeError("no simulator here")


def leaving():
    """Ends the process, as if all were well."""
    raise SystemExit(0)


def talkative_robot():
    """Prints while it is made and while it steps."""
    print("made")

    class Talkative(Robot):
        def move(self):
            print("moving")
            super().move()

    return Talkative(), make_actor(13, 3)


nothing = 3
