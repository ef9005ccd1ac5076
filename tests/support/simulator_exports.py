"""Exported tasks of simulators, compared with their environments over sub-steps and resets."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from exploy.environment.actor import ExportableActor
from exploy.environment.components import Memory
from exploy.runtime import Controller
from exploy.simulators.manager_based.environment import ManagerBasedEnvironment
from exploy.verify.closed_loop import RunLength
from exploy.verify.evaluator import Evaluation, run_evaluation
from exploy.verify.session_wrapper import SessionWrapper
from exploy.verify.tally import Tally
from tests.support.strict_loader import StrictLoader

Exported = tuple[ManagerBasedEnvironment, ExportableActor, Path]


@dataclass(frozen=True)
class Compared:
    """The comparisons of a run, and how often the environment was reset in it."""

    tally: Tally
    steps: int
    resets: int


def compare(env: ManagerBasedEnvironment, actor: ExportableActor, file: Path, steps: int = 100) -> Compared:
    """Step environment and file side by side, with memories that come from the file alone."""
    session = SessionWrapper(file.parent, file.name, actor=actor, optimize=False)
    resets = 0

    def count(*args: Any, **kwargs: Any) -> Any:
        nonlocal resets
        resets += 1
        return reset(*args, **kwargs)

    reset = env.env.command_manager.reset
    with mock.patch.object(env.env.command_manager, "reset", count):
        result = _evaluation(env, session, steps)
    return Compared(result.tally, result.steps, resets)


def _evaluation(env: ManagerBasedEnvironment, session: SessionWrapper, steps: int) -> Evaluation:
    return run_evaluation(
        env,
        env.context_manager(),
        session,
        RunLength(steps),
        verbose=False,
        reseed_every=0,
        atol=1e-5,
        rtol=1e-5,
        pause_on_failure=False,
        allow_uncompared=(),
    )


def assert_agrees(exported: Exported, steps: int = 100) -> None:
    """The file agrees with the environment, which ended episodes meanwhile; all targets were compared."""
    env, actor, file = exported
    result = compare(env, actor, file, steps)
    print("largest error", max(item.worst_error for item in result.tally.outputs.values()))
    assert result.tally.ok, result.tally
    assert result.steps == steps
    assert result.resets
    targets = [name for name in result.tally.outputs if name.startswith("output.")]
    assert targets and all(result.tally.outputs[name].compared == steps * env.decimation for name in targets)


def assert_names_are_agreed(exported: Exported) -> None:
    """A strict controller reads all names and metadata; the adapter says which names it does not know."""
    env, _, file = exported
    assert sorted(StrictLoader(file).unknown) == sorted(env.names_unknown_to_robots)


def assert_first_tick_agrees(exported: Exported) -> None:
    """The controller gives from the first tick after a reset what the environment gives."""
    env, actor, file = exported
    controller = Controller.load(file)
    for _ in range(2):
        env.reset()
        controller.reset()
        observations = env.observations_reset()
        computed = controller.step(values_of_inputs(env, controller))
        if isinstance(observations, dict):
            expected = {f"obs.{name}": value for name, value in observations.items()}
        else:
            expected = {"obs": observations}
        expected["actions"] = actor(observations)
        for name, value in expected.items():
            np.testing.assert_allclose(computed[name], value.detach().numpy(), rtol=1e-5, atol=1e-5)
        env.step(expected["actions"])
        actor.reset(env.empty_actions()[:, 0].bool() | True)


def values_of_inputs(env: ManagerBasedEnvironment, controller: Controller) -> dict[str, np.ndarray]:
    """The values of the Inputs that a file has."""
    inputs = env.context_manager().get_input_components()
    named = {item.name: item for item in inputs if not isinstance(item, Memory)}
    wanted = [port.name for port in controller.contract.inputs if port.name in named]
    return {name: named[name].fetch().numpy().copy() for name in wanted}


def disturb_normalizers(actor: ExportableActor) -> None:
    """Give normalisers values that do something."""
    generator = torch.Generator().manual_seed(1)
    for module in actor.modules():
        if isinstance(getattr(module, "_mean", None), torch.Tensor):
            owner: Any = module
            owner._mean.copy_(0.2 * torch.randn(owner._mean.shape, generator=generator))
            owner._var.copy_(0.3 + 2 * torch.rand(owner._var.shape, generator=generator))
            owner._std.copy_(owner._var.sqrt())
