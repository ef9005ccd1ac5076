"""A TransformedEnv as an exportable environment."""

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("torchrl")

from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import Bounded, Unbounded
from torchrl.envs import (
    ActionScaling,
    CatFrames,
    CatTensors,
    Compose,
    GymEnv,
    ObservationNorm,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    VecNormV2,
)

from exploy import Severity, check_environment
from exploy.errors import InvalidEnvironmentError
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.core.session_wrapper import SessionWrapper
from exploy.exporter.frameworks.torchrl import TorchRlEnvironment, actor_from_policy
from tests.trainers.torchrl_support import ScriptedEnv, noise


def policy(width: int, key: str = "observation", actions: int = 1) -> Any:
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(width, 16), torch.nn.Tanh(), torch.nn.Linear(16, actions), torch.nn.Tanh()
    )
    module = TensorDictModule(network, in_keys=[key], out_keys=["action"])
    return actor_from_policy(module, TensorDict({key: torch.zeros(1, width)}, [1]))


def pendulum() -> Any:
    transforms = Compose(
        ObservationNorm(loc=0.1, scale=0.5, in_keys=["observation"]),
        ActionScaling(),
        StepCounter(max_steps=30),
    )
    return TransformedEnv(GymEnv("Pendulum-v1"), transforms)


def scripted() -> Any:
    base = ScriptedEnv({"left": noise(61, 2), "right": noise(61, 3, seed=1)}, Bounded(-3.0, 5.0, (2,)), lengths=(7, 12))
    transforms = Compose(
        CatTensors(["left", "right"], "both", del_keys=False),
        CatFrames(N=3, dim=-1, in_keys=["both"], out_keys=["observation"]),
        ActionScaling(),
    )
    return TransformedEnv(base, transforms)


def exported(env: TorchRlEnvironment, actor: Any, folder: Path) -> SessionWrapper:
    export_environment_as_onnx(env, actor, folder)
    return SessionWrapper(onnx_folder=folder, onnx_file_name="policy.onnx", actor=actor, optimize=True)


@pytest.mark.parametrize(
    ("make", "width", "actions", "inputs"),
    [(pendulum, 3, 1, ["observation"]), (scripted, 15, 2, ["left", "right"])],
)
def test_an_environment_and_its_file_agree_over_episodes(
    make: Any, width: int, actions: int, inputs: list[str], tmp_path: Path
) -> None:
    env, actor = TorchRlEnvironment(make()), policy(width, actions=actions)
    session = exported(env, actor, tmp_path)
    assert [name for name in session.input_names if name in ("observation", "left", "right")] == inputs
    ok, observations = evaluate(
        env, env.context_manager(), session, num_steps=100, verbose=False, pause_on_failure=False
    )
    assert ok and observations.shape == (1, width)


def test_nothing_is_found_in_an_environment_that_is_wrapped_right() -> None:
    for make, width, actions in ((pendulum, 3, 1), (scripted, 15, 2)):
        diagnosis = check_environment(TorchRlEnvironment(make()), policy(width, actions=actions), steps=20)
        assert diagnosis.steps == 20
        assert all(finding.severity is Severity.INFO for finding in diagnosis.findings), diagnosis


def test_unsuitable_environments_are_refused() -> None:
    with pytest.raises(InvalidEnvironmentError, match="must be a TransformedEnv of torchrl, got GymEnv"):
        TorchRlEnvironment(GymEnv("Pendulum-v1"))
    several = TransformedEnv(SerialEnv(2, lambda: GymEnv("Pendulum-v1")))
    with pytest.raises(InvalidEnvironmentError, match=r"one robot, got a batch size of \(2,\)"):
        TorchRlEnvironment(several)
    base = ScriptedEnv({"observation": noise(20, 4)}, Unbounded((2,)))
    with pytest.raises(InvalidEnvironmentError, match=r"VecNormV2 updates its statistics.*Freeze"):
        TorchRlEnvironment(TransformedEnv(base, VecNormV2(in_keys=["observation"])))
