"""The stages of an environment and its actor, in the order of the exported file."""

import torch

from exploy.environment.actor import ExportableActor
from exploy.environment.exportable_environment import ExportableEnvironment, Observations


class Stages:
    """Runs a live environment and its actor stage by stage. Exceptions of their code are not caught.

    A policy step is `observe()`, `act()` and `process()`. Each further simulation step is a `sub_step()`. Where the
    code makes a call that is registered as an Input, it gets the value of the Input.

    Args:
        env: The environment.
        actor: The actor.
    """

    def __init__(self, env: ExportableEnvironment, actor: ExportableActor):
        self._env = env
        self._actor = actor

    def observe(self) -> Observations:
        """Write connections, update commands, and compute the observations."""
        with self._env.context_manager().calls_replaced():
            self._env.context_manager().write_connections()
            for update in self._env.command_updates:
                update()
            return self._env.compute_observations()

    def act(self, observations: Observations) -> torch.Tensor:
        """Compute the actions."""
        with self._env.context_manager().calls_replaced():
            actions: torch.Tensor = self._actor(observations)
            return actions

    def process(self, actions: torch.Tensor) -> None:
        """Process the actions and apply them for the first time."""
        with self._env.context_manager().calls_replaced():
            self._env.process_actions(actions)
            self._env.apply_actions()

    def sub_step(self) -> None:
        """Write connections, and apply the processed actions again."""
        with self._env.context_manager().calls_replaced():
            self._env.context_manager().write_connections()
            self._env.apply_actions()
