"""TorchRL policies: heads, keys, outputs and unsupported cases."""

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchrl")

from tensordict import NonTensorData, TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import distributions
from torchrl.data import Bounded, Composite, OneHot
from torchrl.envs import ExplorationType, set_exploration_type
from torchrl.modules import (
    MLP,
    Actor,
    ActorValueOperator,
    Delta,
    DistributionalQValueModule,
    EGreedyModule,
    IndependentNormal,
    MaskedCategorical,
    MultiAgentMLP,
    OneHotCategorical,
    OrnsteinUhlenbeckProcessModule,
    ProbabilisticActor,
    QValueActor,
    QValueModule,
    SafeModule,
    TanhDelta,
    TanhModule,
    TanhNormal,
    TruncatedNormal,
    ValueOperator,
)

from exploy.errors import ActorError, PolicyError
from exploy.exporter.frameworks.torchrl import actor_from_policy, export_policy
from exploy.runtime import Controller
from tests.trainers.torchrl_support import assert_same, noise

pytestmark = [
    pytest.mark.filterwarnings("ignore:deterministic_sample wasn't found when queried on:UserWarning"),
    pytest.mark.filterwarnings("ignore:The sample log probability in :DeprecationWarning"),
]

OBSERVATION = 4
BOUNDS = {"low": torch.tensor([-2.0, -1.0]), "high": torch.tensor([0.5, 1.0])}


def example(batch: int | None = 1) -> Any:
    return (
        TensorDict({"observation": torch.zeros(OBSERVATION)}, [])
        if batch is None
        else TensorDict({"observation": torch.zeros(batch, OBSERVATION)}, [batch])
    )


def network(out: int, *heads: Any, width: int = OBSERVATION) -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.Tanh(), torch.nn.Linear(16, out), *heads)


def with_head(kind: Any, keys: tuple[str, ...] = ("loc", "scale"), **options: Any) -> Any:
    torch.manual_seed(0)
    net = network(4, NormalParamExtractor()) if len(keys) == 2 else network(3)
    module = TensorDictModule(net, in_keys=["observation"], out_keys=list(keys))
    return ProbabilisticActor(module, in_keys=list(keys), distribution_class=kind, **options)


def q_policy(action_space: str) -> Any:
    torch.manual_seed(0)
    values = TensorDictModule(network(3), in_keys=["observation"], out_keys=["action_value"])
    return TensorDictSequential(values, QValueModule(action_space=action_space))


def deterministic() -> Any:
    torch.manual_seed(0)
    return TensorDictModule(network(2), in_keys=["observation"], out_keys=["action"])


def kept_inside() -> Any:
    torch.manual_seed(0)
    spec = Composite(action=Bounded(-0.1, 0.1, (2,)))
    return SafeModule(network(2), in_keys=["observation"], out_keys=["action"], spec=spec, safe=True)


def distributional() -> Any:
    torch.manual_seed(0)
    atoms = network(3 * 11, torch.nn.Unflatten(-1, (11, 3)), torch.nn.LogSoftmax(-2))
    values = TensorDictModule(atoms, in_keys=["observation"], out_keys=["action_value"])
    head = DistributionalQValueModule(action_space="one_hot", support=torch.linspace(-1, 1, 11))
    return TensorDictSequential(values, head)


def assert_infers(path: Path, policy: Any, like: Any, kind: str = "deterministic", count: int = 1_000) -> None:
    """Require that a file gives the policy's actions, for one observation at a time."""
    controller, values = Controller.load(path), noise(count, OBSERVATION)
    with torch.no_grad(), set_exploration_type(kind):
        expected = policy(TensorDict({"observation": values}, [count]))["action"].numpy()
    for step in range(count):
        observation = values[step].reshape(like["observation"].shape).numpy()
        got = controller.step({"observation": observation})["action"]
        assert_same(got, expected[step].reshape((*like.batch_size, *expected.shape[1:])), step)


HEADS: dict[str, tuple[Callable[[], Any], str, int | None]] = {
    "Q-values as numbers": (lambda: q_policy("categorical"), "deterministic", None),
    "Q-values as one-hot vectors": (lambda: q_policy("one_hot"), "deterministic", 1),
    "a Q-value actor": (lambda: QValueActor(network(3), in_keys=["observation"], spec=OneHot(3)), "deterministic", 1),
    "an actor": (lambda: Actor(network(2), in_keys=["observation"]), "deterministic", 1),
    "a plain module": (deterministic, "deterministic", None),
    "actions kept inside their spec": (kept_inside, "deterministic", 1),
    "Normal, deterministic": (lambda: with_head(distributions.Normal), "deterministic", 1),
    "Normal, mode, with probabilities": (lambda: with_head(distributions.Normal, return_log_prob=True), "mode", 1),
    "Normal, mean": (lambda: with_head(distributions.Normal), "mean", 1),
    "IndependentNormal, deterministic": (lambda: with_head(IndependentNormal), "deterministic", None),
    "IndependentNormal, mean": (lambda: with_head(IndependentNormal), "mean", 1),
    "Independent": (
        lambda: with_head(lambda loc, scale: distributions.Independent(distributions.Normal(loc, scale), 1)),
        "deterministic",
        1,
    ),
    "TanhNormal, deterministic": (lambda: with_head(TanhNormal), "deterministic", 1),
    "TanhNormal with bounds": (
        lambda: with_head(TanhNormal, distribution_kwargs={"low": -2.0, "high": 0.5}),
        "deterministic",
        None,
    ),
    "TruncatedNormal with bounds": (lambda: with_head(TruncatedNormal, distribution_kwargs=BOUNDS), "deterministic", 1),
    "TanhNormal with bounds by element": (
        lambda: with_head(TanhNormal, distribution_kwargs=BOUNDS, spec=Bounded(-2.0, 1.0, (2,)), safe=True),
        "deterministic",
        1,
    ),
    "TruncatedNormal, deterministic": (lambda: with_head(TruncatedNormal), "deterministic", 1),
    "TruncatedNormal, mode": (lambda: with_head(TruncatedNormal), "mode", 1),
    "TruncatedNormal, mean": (lambda: with_head(TruncatedNormal), "mean", None),
    "Categorical, deterministic": (lambda: with_head(distributions.Categorical, ("logits",)), "deterministic", 1),
    "Categorical, mode": (lambda: with_head(distributions.Categorical, ("logits",)), "mode", None),
    "OneHotCategorical, deterministic": (lambda: with_head(OneHotCategorical, ("logits",)), "deterministic", 1),
    "OneHotCategorical, mode": (lambda: with_head(OneHotCategorical, ("logits",)), "mode", 1),
    "Delta, deterministic": (lambda: with_head(Delta, ("param",)), "deterministic", 1),
    "TanhDelta, deterministic": (lambda: with_head(TanhDelta, ("param",)), "deterministic", 1),
    "a tanh behind the actor": (
        lambda: TensorDictSequential(deterministic(), TanhModule(in_keys=["action"], spec=Bounded(-2.0, 0.5, (2,)))),
        "deterministic",
        1,
    ),
    "distributional Q-values": (distributional, "deterministic", 1),
    "Q-values for several choices": (
        lambda: TensorDictSequential(
            TensorDictModule(network(5), in_keys=["observation"], out_keys=["action_value"]),
            QValueModule(action_space="mult_one_hot", var_nums=[2, 3]),
        ),
        "deterministic",
        1,
    ),
    "one-hot vectors kept inside their spec": (
        lambda: TensorDictSequential(
            TensorDictModule(network(3), in_keys=["observation"], out_keys=["action_value"]),
            QValueModule(spec=OneHot(3), safe=True),
        ),
        "deterministic",
        1,
    ),
    "Delta, mean": (lambda: with_head(Delta, ("param",)), "mean", 1),
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", HEADS)
def test_a_file_gives_the_actions_of_the_policy(name: str, tmp_path: Path) -> None:
    make, exploration, batch = HEADS[name]
    policy = make()
    path = export_policy(policy, example(batch), tmp_path / "policy", exploration=exploration)
    assert_infers(path, policy, example(batch), exploration)


@pytest.mark.parametrize(
    ("policy", "exploration", "message"),
    [
        (lambda: with_head(TanhNormal), "mean", "TanhNormal has no closed form.*deterministic"),
        (lambda: with_head(TanhNormal), "mode", "MODE.*TanhNormal has not analytical mode"),
        (lambda: with_head(distributions.Categorical, ("logits",)), "mean", "NaN actions.*Categorical.*deterministic"),
        (lambda: with_head(OneHotCategorical, ("logits",)), "mean", "NaN actions.*OneHotCategorical"),
        (deterministic, "often", "exploration must be one of .*DETERMINISTIC.* got 'often'"),
    ],
)
def test_an_exploration_that_a_head_has_no_form_for_is_refused(
    policy: Any, exploration: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(PolicyError, match=message):
        export_policy(policy(), example(), tmp_path / "policy", exploration=exploration)
    assert not list(tmp_path.iterdir())


def test_exploration_is_the_argument_else_the_context_else_deterministic() -> None:
    policy = with_head(distributions.Normal)
    assert not actor_from_policy(policy, example()).is_random
    with set_exploration_type(ExplorationType.RANDOM):
        assert actor_from_policy(policy, example()).is_random
        assert not actor_from_policy(policy, example(), exploration=ExplorationType.MODE).is_random
    with set_exploration_type("deterministic"):
        assert actor_from_policy(policy, example(), exploration="RANDOM").is_random


def test_exploration_modules_do_nothing_in_a_deterministic_file(tmp_path: Path) -> None:
    spec = Bounded(-1, 1, (2,))
    policy = TensorDictSequential(
        deterministic(), EGreedyModule(spec), OrnsteinUhlenbeckProcessModule(spec, safe=False)
    )
    path = export_policy(policy, example(), tmp_path / "policy")
    assert not Controller.load(path).contract.memories
    assert_infers(path, deterministic(), example(), count=100)


def test_several_outputs_come_with_the_action_first(tmp_path: Path) -> None:
    policy = q_policy("categorical")
    keys = ("action", "action_value", "chosen_action_value")
    controller = Controller.load(export_policy(policy, example(), tmp_path / "policy", out_keys=keys))
    assert [port.name for port in controller.contract.outputs] == list(keys)
    for value in noise(50, 1, OBSERVATION):
        expected = policy(TensorDict({"observation": value}, [1]))
        got = controller.step({"observation": value.numpy()})
        for key in keys:
            assert_same(got[key], expected[key].detach().numpy())


def test_nested_keys_are_joined_and_what_nothing_reads_is_left_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    policy = TensorDictModule(
        lambda a, b: torch.tanh(a + b), in_keys=[("robot", "arm", "position"), "goal"], out_keys=[("robot", "action")]
    )
    values = {"goal": torch.zeros(3), "image": torch.zeros(8, 8), "text": NonTensorData("hello")}
    values["robot"] = TensorDict({"arm": TensorDict({"position": torch.zeros(3)}, [])}, [])
    path = export_policy(policy, TensorDict(values, []), tmp_path / "policy", out_keys=[("robot", "action")])
    controller = Controller.load(path)
    assert list(controller.inputs) == ["goal", "robot_arm_position"]
    assert list(controller.outputs) == ["robot_action"]
    got = controller.step({"goal": np.ones(3, np.float32), "robot_arm_position": np.ones(3, np.float32)})
    np.testing.assert_allclose(got["robot_action"], np.tanh(2 * np.ones(3)), rtol=1e-6)


def add(*keys: Any) -> Any:
    return TensorDictModule(lambda *values: sum(values), in_keys=list(keys), out_keys=["action"])


@pytest.mark.parametrize(
    ("policy", "values", "message"),
    [
        (
            lambda: add(("a", "b_c"), ("a_b", "c")),
            {"a": {"b_c": torch.zeros(2)}, "a_b": {"c": torch.zeros(2)}},
            r"\('a', 'b_c'\) and \('a_b', 'c'\) would both become the port 'a_b_c'",
        ),
        (lambda: add("my key"), {"my key": torch.zeros(2)}, "'my key' would become .* not an identifier"),
        (lambda: add("here", "there"), {"here": torch.zeros(2)}, "reads 'there'.*It has 'here'"),
        (lambda: add("word"), {"word": NonTensorData("hello")}, "reads 'word', which must be a tensor"),
        (lambda: torch.nn.Linear(2, 2), {"observation": torch.zeros(2)}, "is not a TorchRL policy"),
        (lambda: add("here"), [torch.zeros(2)], "example must be a tensordict or a dictionary"),
        (
            lambda: TensorDictModule(MLP(out_features=2), in_keys=["here"], out_keys=["action"]),
            {"here": torch.zeros(2)},
            r"never run: module\.0\.weight, module\.0\.bias.* has no shape yet",
        ),
        (
            lambda: deterministic(),
            {"observation": torch.zeros(3)},
            "fails on the example .*shapes cannot be multiplied",
        ),
    ],
)
def test_keys_and_examples_that_do_not_fit_are_named(policy: Any, values: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=message):
        export_policy(policy(), values, tmp_path / "policy")


def test_outputs_and_memories_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"out_keys contains 'actions', but .* write 'action'"):
        actor_from_policy(deterministic(), example(), out_keys=["actions"])
    with pytest.raises(PolicyError, match="at least one key"):
        actor_from_policy(deterministic(), example(), out_keys=[])
    with pytest.raises(PolicyError, match="memories= contains 'state', but the policy reads 'observation'"):
        actor_from_policy(deterministic(), example(), memories=["state"])
    with pytest.raises(PolicyError, match="no stage writes its next value"):
        actor_from_policy(deterministic(), example(), memories=["observation"])
    with pytest.raises(PolicyError, match="dynamic_batch=True needs an example with a batch"):
        export_policy(deterministic(), example(None), tmp_path / "policy", dynamic_batch=True)


def test_a_key_that_is_read_and_written_is_no_memory_unless_it_is_named() -> None:
    normalise = TensorDictModule(lambda value: value / 2, in_keys=["observation"], out_keys=["observation"])
    policy = TensorDictSequential(normalise, deterministic())
    assert actor_from_policy(policy, example()).states == ()
    named = actor_from_policy(policy, example(), memories=["observation"])
    assert [state.name for state in named.states] == ["observation"]


def test_the_number_of_robots_can_be_left_open(tmp_path: Path) -> None:
    policy = with_head(TanhNormal)
    path = export_policy(policy, example(3), tmp_path / "policy", dynamic_batch=True, rate_hz=50)
    for batch in (1, 2, 7):
        controller = Controller.load(path, sizes={"batch": batch})
        value = noise(batch, OBSERVATION)
        with torch.no_grad(), set_exploration_type("deterministic"):
            expected = policy(TensorDict({"observation": value}, [batch]))["action"]
        assert_same(controller.step({"observation": value.numpy()})["action"], expected.numpy())


def test_a_value_head_beside_the_actor_is_left_out_with_what_it_reads(tmp_path: Path) -> None:
    torch.manual_seed(0)
    common = SafeModule(network(8), in_keys=["observation"], out_keys=["hidden"])
    actor = SafeModule(network(2, width=8), in_keys=["hidden"], out_keys=["action"])
    critic = ValueOperator(network(1, width=11), in_keys=["hidden", "privileged"])
    path = export_policy(ActorValueOperator(common, actor, critic), example(), tmp_path / "policy")
    assert list(Controller.load(path).inputs) == ["observation"]


@pytest.mark.matrix
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("centralized", [True, False])
def test_multi_agent_networks_work_and_the_live_ones_go_on(shared: bool, centralized: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    agents = MultiAgentMLP(
        n_agent_inputs=3, n_agent_outputs=2, n_agents=4, centralized=centralized, share_params=shared, num_cells=[8]
    )
    policy = TensorDictModule(agents, in_keys=[("agents", "observation")], out_keys=[("agents", "action")])
    like = TensorDict({"agents": TensorDict({"observation": torch.zeros(1, 4, 3)}, [1, 4])}, [1])
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    first = policy(like.clone())["agents", "action"].detach()
    path = export_policy(policy, like, tmp_path / "policy", out_keys=[("agents", "action")], dynamic_batch=True)
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())
    assert torch.equal(policy(like.clone())["agents", "action"], first)
    policy(like.clone())["agents", "action"].sum().backward()
    controller = Controller.load(path)
    with torch.no_grad():
        for step, value in enumerate(noise(500, 1, 4, 3)):
            expected = agents(value)
            got = controller.step({"agents_observation": value.numpy()})["agents_action"]
            assert_same(got, expected.numpy(), step)


def test_q_values_with_masked_actions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    values = TensorDictModule(network(3), in_keys=["observation"], out_keys=["action_value"])
    policy = TensorDictSequential(values, QValueModule(action_space="categorical", action_mask_key="action_mask"))
    like = example().set("action_mask", torch.ones(1, 3, dtype=torch.bool))
    controller = Controller.load(export_policy(policy, like, tmp_path / "policy"))
    for value, allowed in zip(noise(100, 1, OBSERVATION), np.random.default_rng(0).integers(3, size=100), strict=True):
        mask = np.eye(3, dtype=bool)[[allowed]]
        got = controller.step({"observation": value.numpy(), "action_mask": mask})["action"]
        assert got == policy(TensorDict({"observation": value, "action_mask": torch.from_numpy(mask)}, [1]))["action"]
        assert got == allowed


def test_masked_actions_need_their_mask(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = TensorDictModule(network(3), in_keys=["observation"], out_keys=["logits"])
    policy = ProbabilisticActor(
        module, in_keys={"logits": "logits", "mask": "action_mask"}, distribution_class=MaskedCategorical
    )
    like = example().set("action_mask", torch.ones(1, 3, dtype=torch.bool))
    controller = Controller.load(export_policy(policy, like, tmp_path / "policy"))
    rng = np.random.default_rng(0)
    for value in noise(200, 1, OBSERVATION):
        mask = rng.random((1, 3)) < 0.5
        mask[0, rng.integers(3)] = True
        tensordict = TensorDict({"observation": value, "action_mask": torch.from_numpy(mask)}, [1])
        with torch.no_grad(), set_exploration_type("deterministic"):
            expected = policy(tensordict)["action"]
        assert_same(controller.step({"observation": value.numpy(), "action_mask": mask})["action"], expected.numpy())


def test_the_policy_of_the_training_stays_as_it_is(tmp_path: Path) -> None:
    policy = with_head(TanhNormal, spec=Bounded(-1, 1, (2,)))
    policy.train()
    before = copy.deepcopy(policy.state_dict())
    export_policy(policy, example(), tmp_path / "policy")
    assert policy.training and all(parameter.requires_grad for parameter in policy.parameters())
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())
    assert not any("forward" in vars(module) for module in policy.modules())


def test_a_policy_is_an_actor_as_well() -> None:
    policy = deterministic()
    actor = actor_from_policy(policy, example(2))
    value = noise(2, OBSERVATION)
    assert torch.equal(actor(value), policy(TensorDict({"observation": value}, [2]))["action"])
    assert torch.equal(actor({"observation": value}), actor(value))
    assert actor.get_state() is None
    with pytest.raises(ActorError, match="observation is missing"):
        actor({"other": value})


def test_functions_without_keys_are_told_what_to_do(tmp_path: Path) -> None:
    policy = TensorDictSequential(
        lambda tensordict: tensordict.set("features", tensordict["observation"] * 2),
        TensorDictModule(network(2), in_keys=["features"], out_keys=["action"]),
    )
    with pytest.raises(
        PolicyError, match=r"reads 'features'.*Wrap functions without in_keys and out_keys in a TensorDictModule"
    ):
        export_policy(policy, example(), tmp_path / "policy")


def test_without_torchrl_the_user_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    policy = deterministic()
    monkeypatch.setitem(sys.modules, "torchrl.envs.utils", None)
    with pytest.raises(PolicyError, match=r"pip install 'exploy\[torchrl\]'"):
        export_policy(policy, example(), tmp_path / "policy")


def test_names_and_provenance_are_stored(tmp_path: Path) -> None:
    names = [f"joint_{index}" for index in range(OBSERVATION)]
    path = export_policy(deterministic(), example(), tmp_path / "policy", obs_names=names, rate_hz=50)
    contract = Controller.load(path).contract
    assert contract.inputs[0].names == tuple(names) and contract.hz == pytest.approx(50)
    assert {"torchrl", "tensordict"} <= set(contract.provenance.versions)
