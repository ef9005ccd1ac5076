"""What the models of motors of a simulator must offer to be a part of the file."""

from collections.abc import Iterator
from typing import Protocol

from exploy.simulators.manager_based.robot_ports import RobotPort


class Motors(Protocol):
    """Models of motors, which compute efforts from targets in every simulation step."""

    def compute(self) -> None:
        """Compute the efforts of all joints from their targets."""

    def reset(self) -> None:
        """Bring the models to the state that they have when an episode ends by itself."""

    def ports(self) -> Iterator[RobotPort]:
        """The efforts as Outputs, and as Memories what the models keep from step to step."""
