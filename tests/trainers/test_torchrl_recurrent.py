"""TorchRL policies with memories: recurrent modules, pairs of keys, named memories."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchrl")

from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torchrl.data import Unbounded
from torchrl.envs import BatchSizeTransform, Compose, InitTracker, TransformedEnv, set_exploration_type
from torchrl.modules import MLP, GRUModule, LSTMModule, ProbabilisticActor, TanhNormal

from exploy.contract import PortKind
from exploy.errors import PolicyError
from exploy.exporter.frameworks.torchrl import actor_from_policy, export_policy
from exploy.runtime import Controller
from tests.trainers.torchrl_support import (
    ScriptedEnv,
    assert_runs_as_in,
    assert_same,
    noise,
)

OBSERVATION, HIDDEN = 4, 8


def head(width: int = HIDDEN) -> Any:
    return TensorDictModule(torch.nn.Linear(width, 2), in_keys=["embedded"], out_keys=["action"])


def recurrent(kind: Any, layers: int, python_based: bool) -> tuple[Any, Any]:
    torch.manual_seed(0)
    module = kind(
        input_size=OBSERVATION,
        hidden_size=HIDDEN,
        num_layers=layers,
        in_key="observation",
        out_key="embedded",
        python_based=python_based,
    )
    return module, TensorDictSequential(module, head())


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [LSTMModule, GRUModule])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("python_based", [True, False])
def test_hidden_states_are_memories_that_start_anew_after_a_reset(
    kind: Any, layers: int, python_based: bool, tmp_path: Path
) -> None:
    module, policy = recurrent(kind, layers, python_based)
    base = ScriptedEnv({"observation": noise(97, OBSERVATION)}, Unbounded((2,)))
    env = TransformedEnv(base, Compose(InitTracker(), module.make_tensordict_primer()))
    path = export_policy(policy, base.fake_tensordict(), tmp_path / "policy", transforms=env)
    controller = assert_runs_as_in(env, policy, path, base, 600)
    names = [memory.name for memory in controller.contract.memories]
    assert names == [key for key in module.in_keys if key not in ("observation", "is_init")]
    assert [port.kind for port in controller.contract.inputs if port.name == "is_init"] == [PortKind.IS_INIT]
    assert controller.contract.outputs[0].name == "action"


def test_without_transforms_the_state_of_a_batch_is_found_from_the_module(tmp_path: Path) -> None:
    _, policy = recurrent(GRUModule, 2, False)
    like = TensorDict({"observation": torch.zeros(3, OBSERVATION)}, [3])
    path = export_policy(policy, like, tmp_path / "policy", dynamic_batch=True)
    controller, batch = Controller.load(path, sizes={"batch": 5}), 5
    state = torch.zeros(batch, 2, HIDDEN)
    with torch.no_grad():
        for step, value in enumerate(noise(500, batch, OBSERVATION)):
            is_first = step % 90 == 0
            if is_first:
                controller.reset()
            flags = torch.full((batch, 1), is_first)
            values = {"observation": value, "recurrent_state": state, "is_init": flags}
            result = policy(TensorDict(values, [batch]))
            state = result["next", "recurrent_state"]
            assert_same(controller.step({"observation": value.numpy()})["action"], result["action"].numpy(), step)


@pytest.mark.matrix
@pytest.mark.parametrize("python_based", [True, False])
def test_the_recurrent_policy_of_the_tutorial(python_based: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    lstm = LSTMModule(
        input_size=32,
        num_layers=2,
        hidden_size=256,
        in_keys=["observation", "hidden0", "hidden1"],
        out_keys=["intermediate", "hidden0", "hidden1"],
    )
    policy = TensorDictSequential(
        BatchSizeTransform(reshape_fn=lambda x: x.unsqueeze(0)),
        lstm.make_python_based() if python_based else lstm,
        TensorDictModule(
            MLP(in_features=256, out_features=5, num_cells=[64, 64]), in_keys=["intermediate"], out_keys=["action"]
        ),
        BatchSizeTransform(reshape_fn=lambda x: x.squeeze(0)),
    )
    policy.select_out_keys("action", "hidden0", "hidden1")
    example = {
        "observation": torch.randn(32),
        "hidden0": torch.randn(2, 256),
        "hidden1": torch.randn(2, 256),
        "is_init": torch.zeros((), dtype=torch.bool),
    }
    path = export_policy(policy, example, tmp_path / "policy")
    controller = Controller.load(path)
    shapes = {port.name: port.shape for port in controller.contract.inputs}
    assert shapes == {"observation": (32,), "is_init": (), "hidden0_in": (2, 256), "hidden1_in": (2, 256)}
    hidden0, hidden1 = torch.zeros(2, 256), torch.zeros(2, 256)
    with torch.no_grad():
        for step, value in enumerate(noise(500, 32)):
            is_first = step % 77 == 0
            if is_first:
                controller.reset()
            action, hidden0, hidden1 = policy(
                observation=value, hidden0=hidden0, hidden1=hidden1, is_init=torch.tensor(is_first)
            )
            assert_same(controller.step({"observation": value.numpy()})["action"], action.numpy(), step)


def test_a_recurrent_module_inside_of_a_distribution_is_found(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lstm = LSTMModule(input_size=OBSERVATION, hidden_size=HIDDEN, in_key="observation", out_key="embedded")
    params = TensorDictModule(
        torch.nn.Sequential(torch.nn.Linear(HIDDEN, 4), NormalParamExtractor()),
        in_keys=["embedded"],
        out_keys=["loc", "scale"],
    )
    policy = ProbabilisticActor(
        TensorDictSequential(lstm, params), in_keys=["loc", "scale"], distribution_class=TanhNormal
    )
    base = ScriptedEnv({"observation": noise(97, OBSERVATION)}, Unbounded((2,)))
    env = TransformedEnv(base, Compose(InitTracker(), lstm.make_tensordict_primer()))
    path = export_policy(policy, base.fake_tensordict(), tmp_path / "policy", transforms=env)
    assert_runs_as_in(env, policy, path, base)


def with_state(read: str, written: Any) -> Any:
    torch.manual_seed(0)
    network = torch.nn.Linear(OBSERVATION + 3, 5)

    def step(observation: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = torch.tanh(network(torch.cat([observation, state], -1)))
        return result[..., :2], result[..., 2:]

    return TensorDictModule(step, in_keys=["observation", read], out_keys=["action", written])


@pytest.mark.parametrize(
    ("written", "memories"),
    [(("next", "state"), None), ("state", ["state"]), ("following", {"state": "following"})],
)
def test_what_is_read_and_written_for_the_next_step_is_a_memory(written: Any, memories: Any, tmp_path: Path) -> None:
    policy = with_state("state", written)
    like = TensorDict({"observation": torch.zeros(1, OBSERVATION), "state": torch.zeros(1, 3)}, [1])
    path = export_policy(policy, like, tmp_path / "policy", memories=memories)
    controller, state = Controller.load(path), torch.zeros(1, 3)
    assert list(controller.inputs) == ["observation"]
    with torch.no_grad():
        for step, value in enumerate(noise(500, 1, OBSERVATION)):
            if step % 60 == 0:
                controller.reset()
                state = torch.zeros(1, 3)
            result = policy(TensorDict({"observation": value, "state": state}, [1]))
            state = result[written]
            assert_same(controller.step({"observation": value.numpy()})["action"], result["action"].numpy(), step)


def test_memories_that_do_not_come_back_as_they_were_are_refused() -> None:
    policy = TensorDictModule(
        lambda observation, state: (observation, torch.cat([state, state], -1)),
        in_keys=["observation", "state"],
        out_keys=["action", ("next", "state")],
    )
    like = TensorDict({"observation": torch.zeros(1, 4), "state": torch.zeros(1, 3)}, [1])
    with pytest.raises(PolicyError, match=r"'state' is read with shape \(1, 3\).*has shape \(1, 6\)"):
        actor_from_policy(policy, like)
    with pytest.raises(PolicyError, match="reads 'state', which is missing in the example"):
        actor_from_policy(policy, like.exclude("state"))


def test_a_recurrent_actor_keeps_its_own_state() -> None:
    _, policy = recurrent(LSTMModule, 1, False)
    actor = actor_from_policy(policy, TensorDict({"observation": torch.zeros(2, OBSERVATION)}, [2]))
    states = [torch.zeros(2, 1, HIDDEN)] * 2
    flags = torch.ones(2, 1, dtype=torch.bool)
    with torch.no_grad(), set_exploration_type("deterministic"):
        for step, value in enumerate(noise(20, 2, OBSERVATION)):
            values = {"observation": value, "recurrent_state_h": states[0], "recurrent_state_c": states[1]}
            result = policy(TensorDict({**values, "is_init": flags}, [2]))
            states = [result["next", "recurrent_state_h"], result["next", "recurrent_state_c"]]
            np.testing.assert_allclose(actor(value), result["action"], rtol=1e-6, atol=1e-6)
            dones = torch.tensor([step == 7, step == 12])
            flags = dones[:, None]
            if bool(dones.any()):
                actor.reset(dones)
    state = actor.get_state()
    assert state is not None and [tuple(value.shape) for value in state] == [(2, 1, HIDDEN)] * 2


def test_the_live_modules_stay_as_they_are() -> None:
    module, policy = recurrent(GRUModule, 1, True)
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    network = module.gru
    actor_from_policy(policy, TensorDict({"observation": torch.zeros(2, OBSERVATION)}, [2]))
    assert module.gru is network and "forward" not in vars(module) and policy.training
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())
