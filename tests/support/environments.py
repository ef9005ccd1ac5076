"""A base for test environments, and the check that their files agree with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from exploy.exporter.core.actor import ExportableActor, make_exportable_actor
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.core.session_wrapper import SessionWrapper


class TestEnvironment(ExportableEnvironment):
    """An environment that calls its hooks; subclasses give state, observation and action code, and motion.

    `move()` is the simulator: called after each sub-step, it changes what Inputs read.
    """

    __test__ = False
    num_actions = 2
    batch_size = 1

    def __init__(self, decimation: int = 4, reset_every: int = 37):
        super().__init__()
        self._decimation = decimation
        self._reset_every = reset_every
        self._steps = 0
        self._starts: dict[str, torch.Tensor] = {}
        self._noise = torch.Generator().manual_seed(1)
        self._hooks: tuple[Callable[..., None], ...] = (_ignore, _ignore, _ignore)
        self.targets = torch.zeros(self.batch_size, self.num_actions)

    def observe(self) -> torch.Tensor:
        raise NotImplementedError

    def move(self) -> None:
        raise NotImplementedError

    def restart(self) -> None:
        """Put the state back to a start value; nothing by default."""

    def restart_memories(self) -> None:
        """Put the registered memories back to what they were at the first export."""
        for memory in self.context_manager().get_memory_components():
            if memory.name in self._starts:
                memory.fetch().copy_(self._starts[memory.name])

    def noise(self, like: torch.Tensor) -> torch.Tensor:
        return 0.1 * torch.randn(like.shape, generator=self._noise).to(like.dtype)

    def compute_observations(self) -> torch.Tensor:
        return self.observe()

    def process_actions(self, actions: torch.Tensor) -> None:
        self.targets[:] = actions

    def apply_actions(self) -> None:
        pass

    def prepare_export(self) -> None:
        for memory in self.context_manager().get_memory_components():
            if not memory.name.startswith("actor_state"):
                self._starts.setdefault(memory.name, memory.value.detach().clone())

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(self.batch_size, len(self.get_observation_names()))

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(self.batch_size, self.num_actions)

    def metadata(self) -> dict[str, Any]:
        return {"env_name": type(self).__name__}

    @property
    def decimation(self) -> int:
        return self._decimation

    def register_evaluation_hooks(
        self,
        update: Callable[[], None],
        reset: Callable[[], None],
        evaluate_substep: Callable[[int], None],
    ) -> None:
        self._hooks = (update, reset, evaluate_substep)

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        _, reset, evaluate_substep = self._hooks
        self.process_actions(actions)
        for sub_step in range(self._decimation):
            if sub_step:
                self.context_manager().write_connections()
            self.apply_actions()
            evaluate_substep(sub_step)
            self.move()
        self._steps += 1
        done = self._steps % self._reset_every == 0
        if done:
            self.restart()
            self.restart_memories()
            reset()
        return self.observations_reset(), done

    def get_observation_names(self) -> list[str]:
        return [f"obs_{index}" for index in range(self.num_observations)]

    num_observations = 4

    def observations_reset(self) -> torch.Tensor:
        self._hooks[0]()
        self.context_manager().write_connections()
        for command_update in self.command_updates:
            command_update()
        return self.compute_observations()


def make_actor(num_obs: int, num_act: int = 2) -> ExportableActor:
    """A small network with seeded weights, in training mode as torch makes it."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(num_obs, 16), torch.nn.ELU(), torch.nn.Linear(16, num_act))
    return make_exportable_actor(net)


def export(env: ExportableEnvironment, actor: torch.nn.Module, folder: Path, **options: Any) -> SessionWrapper:
    """Export and open the file."""
    export_environment_as_onnx(env, actor, folder, **options)
    return SessionWrapper(folder, "policy.onnx", actor=make_exportable_actor(actor), optimize=False)


def assert_agrees(
    env: ExportableEnvironment,
    actor: torch.nn.Module,
    folder: Path,
    steps: int = 100,
    tolerance: float = 1e-5,
    **options: Any,
) -> SessionWrapper:
    """Export, then step environment and file side by side, memories fed back from the file alone."""
    session = export(env, actor, folder, **{"initial_memory": "reset", **options})
    ok, _ = evaluate(
        env,
        env.context_manager(),
        session,
        num_steps=steps,
        verbose=False,
        reset_from_onnx_counter_steps=None,
        atol=tolerance,
        rtol=tolerance,
        pause_on_failure=False,
    )
    assert ok
    return session


def _ignore(*_: object) -> None:
    pass
