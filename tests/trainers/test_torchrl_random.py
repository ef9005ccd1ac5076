"""Random TorchRL policies: the distribution is that of the library, and a seed makes it repeatable."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchrl")

from tensordict import TensorDict
from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
from torch import distributions
from torchrl.data import Bounded, Categorical, OneHot
from torchrl.envs import set_exploration_type
from torchrl.modules import (
    AdditiveGaussianModule,
    Delta,
    EGreedyModule,
    IndependentNormal,
    OneHotCategorical,
    OrnsteinUhlenbeckProcessModule,
    ProbabilisticActor,
    QValueModule,
    TanhNormal,
    TruncatedNormal,
)

from exploy.exporter.frameworks.torchrl import export_policy
from exploy.runtime import Controller

COUNT = 6000
OBSERVATION = torch.tensor([0.3, -0.7, 1.1, 0.2])
EXAMPLE = TensorDict({"observation": torch.zeros(1, 4)}, [1])
SPEC = Bounded(-1, 1, (2,))


def values() -> Any:
    torch.manual_seed(0)
    return TensorDictModule(torch.nn.Linear(4, 3), in_keys=["observation"], out_keys=["action_value"])


def actions() -> Any:
    torch.manual_seed(0)
    return TensorDictModule(torch.nn.Linear(4, 2), in_keys=["observation"], out_keys=["action"])


def with_head(kind: Any, *keys: str, **options: Any) -> Any:
    torch.manual_seed(1)
    network: Any = torch.nn.Linear(4, 4 if len(keys) == 2 else 3)
    network = torch.nn.Sequential(network, NormalParamExtractor()) if len(keys) == 2 else network
    module = TensorDictModule(network, in_keys=["observation"], out_keys=list(keys))
    return ProbabilisticActor(module, in_keys=list(keys), distribution_class=kind, **options)


CONTINUOUS = {
    "Normal": lambda: with_head(distributions.Normal, "loc", "scale"),
    "IndependentNormal": lambda: with_head(IndependentNormal, "loc", "scale"),
    "TanhNormal": lambda: with_head(TanhNormal, "loc", "scale"),
    "TruncatedNormal": lambda: with_head(TruncatedNormal, "loc", "scale"),
    "TruncatedNormal with bounds": lambda: with_head(
        TruncatedNormal,
        "loc",
        "scale",
        distribution_kwargs={"low": torch.tensor([-2.0, -1.0]), "high": torch.tensor([0.5, 1.0])},
    ),
    "Gaussian noise": lambda: TensorDictSequential(
        actions(), AdditiveGaussianModule(SPEC, sigma_init=0.7, sigma_end=0.1, mean=0.1, std=0.8)
    ),
    "e-greedy of a box": lambda: TensorDictSequential(actions(), EGreedyModule(SPEC, eps_init=0.4)),
}
DISCRETE = {
    "Categorical": lambda: with_head(distributions.Categorical, "logits"),
    "OneHotCategorical": lambda: with_head(OneHotCategorical, "logits"),
    "e-greedy of numbers": lambda: TensorDictSequential(
        values(), QValueModule(action_space="categorical"), EGreedyModule(Categorical(3), eps_init=0.5)
    ),
    "e-greedy of one-hot vectors": lambda: TensorDictSequential(
        values(), QValueModule(action_space="one_hot"), EGreedyModule(OneHot(3), eps_init=0.5)
    ),
}


def drawn_by_the_library(policy: Any) -> np.ndarray:
    torch.manual_seed(3)
    observations = OBSERVATION.expand(COUNT, 4).clone()
    with torch.no_grad(), set_exploration_type("random"):
        result: np.ndarray = policy(TensorDict({"observation": observations}, [COUNT]))["action"].numpy()
    return result


def drawn_by(path: Path, count: int = COUNT) -> np.ndarray:
    controller = Controller.load(path)
    observation = OBSERVATION[None].numpy()
    return np.concatenate([controller.step({"observation": observation})["action"].copy() for _ in range(count)])


def assert_same_distribution(got: np.ndarray, expected: np.ndarray) -> None:
    """The two-sample Kolmogorov-Smirnov test at a level of 1e-4."""
    points = np.sort(np.concatenate([got, expected]))
    below = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (got, expected)]
    distance = np.abs(below[0] - below[1]).max()
    assert distance < np.sqrt(-0.5 * np.log(1e-4 / 2)) * np.sqrt(1 / len(got) + 1 / len(expected)), distance


@pytest.mark.matrix
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_actions_have_the_distribution_of_the_library(name: str, tmp_path: Path) -> None:
    policy = CONTINUOUS[name]()
    path = export_policy(policy, EXAMPLE, tmp_path / "policy", exploration="random", seed=5)
    got, expected = drawn_by(path), drawn_by_the_library(policy)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    for axis in range(2):
        assert len(np.unique(got[:, axis])) > 100
        assert_same_distribution(got[:, axis], expected[:, axis])
    together = [np.corrcoef(sample.T)[0, 1] for sample in (got, expected)]
    assert abs(together[0] - together[1]) < 0.08
    assert abs(np.corrcoef(got[:-1, 0], got[1:, 0])[0, 1]) < 0.06, "steps are not drawn independently"


@pytest.mark.matrix
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_actions_have_the_distribution_of_the_library(name: str, tmp_path: Path) -> None:
    policy = DISCRETE[name]()
    path = export_policy(policy, EXAMPLE, tmp_path / "policy", exploration="random", seed=5)
    got, expected = drawn_by(path), drawn_by_the_library(policy)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    numbers = [sample.argmax(-1) if sample.ndim > 1 else sample for sample in (got, expected)]
    counts = np.array([np.bincount(sample, minlength=3) for sample in numbers])
    assert (counts > 50).all()
    pooled = counts.sum(axis=0) / 2
    chi_square = ((counts - pooled) ** 2 / pooled).sum()
    assert chi_square < 18.4, counts  # level 1e-4 with two degrees of freedom


def test_masked_exploration_keeps_to_what_is_allowed(tmp_path: Path) -> None:
    spec = OneHot(4)
    torch.manual_seed(0)
    policy = TensorDictSequential(
        TensorDictModule(torch.nn.Linear(4, 4), in_keys=["observation"], out_keys=["action_value"]),
        QValueModule(spec=spec, action_mask_key="mask"),
        EGreedyModule(spec, eps_init=1.0, action_mask_key="mask"),
    )
    like = EXAMPLE.clone().set("mask", torch.ones(1, 4, dtype=torch.bool))
    path = export_policy(policy, like, tmp_path / "policy", exploration="random", seed=5)
    controller = Controller.load(path)
    for allowed in ([0, 2], [1, 2, 3]):
        mask = np.isin(np.arange(4), allowed)[None]
        drawn = [
            int(controller.step({"observation": OBSERVATION[None].numpy(), "mask": mask})["action"].argmax())
            for _ in range(1500)
        ]
        counts = np.bincount(drawn, minlength=4)
        assert set(np.flatnonzero(counts)) == set(allowed)
        expected = 1500 / len(allowed)
        assert ((counts[allowed] - expected) ** 2 / expected).sum() < 18.4


def test_a_delta_draws_nothing(tmp_path: Path) -> None:
    policy = with_head(Delta, "param")
    path = export_policy(policy, EXAMPLE, tmp_path / "policy", exploration="random")
    np.testing.assert_allclose(drawn_by(path, 3), drawn_by_the_library(policy)[:3], rtol=1e-5, atol=1e-6)


def test_a_seed_makes_it_repeatable_and_another_one_other(tmp_path: Path) -> None:
    policy = CONTINUOUS["TanhNormal"]()
    options: Any = {"exploration": "random"}
    paths = [export_policy(policy, EXAMPLE, tmp_path / str(seed), seed=seed, **options) for seed in (1, 2)]
    assert np.array_equal(drawn_by(paths[0], 100), drawn_by(paths[0], 100))
    assert not np.array_equal(drawn_by(paths[0], 100), drawn_by(paths[1], 100))
    assert Controller.load(paths[0]).contract.random_outputs == ("action",)


def test_an_ornstein_uhlenbeck_process_remembers_its_noise_and_forgets_it_at_a_reset(tmp_path: Path) -> None:
    episodes, steps = 1500, (1, 4, 12)
    process = OrnsteinUhlenbeckProcessModule(
        Bounded(-100, 100, (2,)), theta=0.9, sigma=0.8, dt=0.4, sigma_min=0.1, n_steps_annealing=10, mu=0.3
    )
    policy = TensorDictSequential(actions(), process)
    path = export_policy(policy, EXAMPLE, tmp_path / "policy", exploration="random", seed=11)
    controller = Controller.load(path)
    assert [memory.name for memory in controller.contract.memories] == ["_ou_prev_noise", "_ou_steps"]
    got = np.empty((episodes, max(steps)))
    for episode in range(episodes):
        controller.reset()
        for step in range(max(steps)):
            got[episode, step] = controller.step({"observation": OBSERVATION[None].numpy()})["action"][0, 0]
    expected = _episodes_of_the_library(policy, episodes, max(steps))
    for step in steps:
        assert_same_distribution(got[:, step - 1], expected[:, step - 1])
    for sample in (got, expected):
        assert np.corrcoef(sample[:, 3], sample[:, 4])[0, 1] > 0.5, "the noise is not kept between steps"
    assert abs(np.corrcoef(got[:-1, -1], got[1:, 0])[0, 1]) < 0.1, "the noise is not reset"


def _episodes_of_the_library(policy: Any, episodes: int, steps: int) -> np.ndarray:
    torch.manual_seed(4)
    tensordict = TensorDict({"observation": OBSERVATION.expand(episodes, 4).clone()}, [episodes])
    series = []
    with torch.no_grad(), set_exploration_type("random"):
        for step in range(steps):
            tensordict["is_init"] = torch.full((episodes, 1), step == 0)
            tensordict = policy(tensordict)
            series.append(tensordict["action"][:, 0].numpy().copy())
    return np.stack(series, axis=1)
