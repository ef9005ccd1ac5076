"""The shortest version of the tutorial: a one-joint environment, its adapter, and a verified ONNX file.

Run with `python examples/quickstart.py [folder]`.
"""

import sys

import torch

from exploy.exporter.core.actor import make_exportable_actor
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.core.session_wrapper import SessionWrapper


class Pendulum(ExportableEnvironment):
    """A pendulum with a torque motor: an ordinary environment, plus the methods of the adapter."""

    def __init__(self) -> None:
        super().__init__()
        self.angle, self.velocity = torch.full((1, 1), 0.5), torch.zeros(1, 1)
        self.last_action = torch.zeros(1, 1)
        self.torque = torch.zeros(1, 1)
        self.hooks = [lambda *_: None] * 3

    # Computed by the exported file.

    def compute_observations(self) -> torch.Tensor:
        """The inputs of the policy."""
        return torch.cat([self.angle.sin(), self.angle.cos(), self.velocity, self.last_action], dim=-1)

    def process_actions(self, actions: torch.Tensor) -> None:
        """Called once per policy step: store and scale the actions."""
        self.last_action[:] = actions
        self.target = actions.clamp(-1, 1) * 0.3

    def apply_actions(self) -> None:
        """Called every simulation step: a damped motor, which reads the current velocity."""
        self.torque = self.target - 0.1 * self.velocity

    # Also needed by the evaluation.

    @property
    def decimation(self) -> int:
        """Simulation steps per policy step."""
        return 4

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """Run one policy step. The evaluation uses the hooks to compare every simulation step."""
        update, _, evaluate_substep = self.hooks
        self.process_actions(actions)
        for sub_step in range(self.decimation):
            self.apply_actions()
            evaluate_substep(sub_step)
            self.velocity += 0.005 * (self.torque + 9.81 * self.angle.sin())
            self.angle += 0.005 * self.velocity
        update()
        return self.compute_observations(), False

    def register_evaluation_hooks(self, update, reset, evaluate_substep) -> None:  # type: ignore[no-untyped-def]
        """Store the functions that step() calls."""
        self.hooks = [update, reset, evaluate_substep]

    def prepare_export(self) -> None:
        """The environment can be exported from any state."""

    def empty_actor_observations(self) -> torch.Tensor:
        """Zeros with the shape of the observations."""
        return torch.zeros(1, 4)

    def empty_actions(self) -> torch.Tensor:
        """Zeros with the shape of the actions."""
        return torch.zeros(1, 1)

    def metadata(self) -> dict[str, str]:
        """Metadata that is stored in the file."""
        return {"env_name": "Pendulum", "sim_dt": "0.005"}

    def get_observation_names(self) -> list[str]:
        """One name for each element."""
        return ["sin", "cos", "velocity", "last_action"]

    def observations_reset(self) -> torch.Tensor:
        """Observations of the current state."""
        self.hooks[0]()
        return self.compute_observations()

    def reset(self) -> None:
        """Start a new episode. The start values of the memories in the file are those after this."""
        self.angle.fill_(0.5)
        self.velocity.zero_()
        self.last_action.zero_()


def make_actor() -> torch.nn.Module:
    """The policy. A real one would be loaded from a checkpoint."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ELU(), torch.nn.Linear(32, 1))


def register(env: Pendulum) -> None:
    """Register what the file exchanges with the robot, and what it keeps from step to step.

    `exploy discover examples/quickstart.py:make_bare --output torque=env.torque` finds the same. The units are added.
    """
    env.context_manager().add_components(
        [
            Input("angle", lambda: env.angle, metadata={"unit": "rad"}),
            Input("velocity", lambda: env.velocity, metadata={"unit": "rad/s"}),
            Memory("last_action", lambda: env.last_action),
            Output("torque", lambda: env.torque, metadata={"unit": "Nm"}),
        ]
    )


def make_bare() -> tuple[Pendulum, torch.nn.Module]:
    """Create environment and actor, with nothing registered. Used by `exploy discover`."""
    return Pendulum(), make_actor()


def make() -> tuple[Pendulum, torch.nn.Module]:
    """Create environment and actor. Used by `exploy check examples/quickstart.py:make` and the other commands.

    It must return the same weights at every call.
    """
    env, actor = make_bare()
    register(env)
    return env, actor


def main(folder: str = "pendulum") -> bool:
    """Export, and compare the file against the environment over 100 policy steps."""
    env, actor = make()
    path = export_environment_as_onnx(env, actor, folder)
    session = SessionWrapper(folder, path.name, actor=make_exportable_actor(actor))
    ok, _ = evaluate(env, env.context_manager(), session, num_steps=100)
    return ok


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:2]) else 1)
