"""TorchRL environment transforms before and after a policy."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("torchrl")

from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import (
    ActionDiscretizer,
    ActionScaling,
    BatchSizeTransform,
    CatFrames,
    CatTensors,
    CenterCrop,
    Compose,
    DoubleToFloat,
    DTypeCastTransform,
    FlattenObservation,
    GrayScale,
    InitTracker,
    ObservationNorm,
    PermuteTransform,
    RenameTransform,
    Resize,
    RewardScaling,
    RewardSum,
    SqueezeTransform,
    StepCounter,
    TargetReturn,
    TensorDictPrimer,
    TimeMaxPool,
    ToTensorImage,
    Transform,
    TransformedEnv,
    UnsqueezeTransform,
    VecNorm,
    VecNormV2,
)
from torchrl.modules import LSTMModule, QValueModule

from exploy.errors import PolicyError
from exploy.exporter.frameworks.torchrl import export_policy
from exploy.runtime import Controller
from tests.trainers.torchrl_support import (
    ScriptedEnv,
    assert_runs_as_in,
    import_torchvision,
    noise,
)

pytestmark = [
    pytest.mark.expensive,
    pytest.mark.filterwarnings("ignore:This class is to be deprecated in favor of:FutureWarning"),
]

STEPS = 500


def linear(width: int, key: Any = "observation", out: int = 2, dtype: torch.dtype = torch.float32) -> Any:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.Tanh(), torch.nn.Linear(16, out)).to(dtype)
    return TensorDictModule(network, in_keys=[key], out_keys=["action"])


def check(transforms: Any, policy: Any, base: ScriptedEnv, tmp_path: Path, steps: int = STEPS) -> Any:
    env = TransformedEnv(base, transforms)
    env.reset()
    path = export_policy(policy, base.fake_tensordict(), tmp_path / "policy", transforms=env)
    return assert_runs_as_in(env, policy, path, base, steps)


def vectors(dtype: torch.dtype = torch.float32, width: int = 4, spec: Any = None) -> ScriptedEnv:
    return ScriptedEnv({"observation": noise(97, width, dtype=dtype)}, spec or Unbounded((2,)))


def test_observations_are_normalised_and_rewards_are_no_part_of_it(tmp_path: Path) -> None:
    transforms = Compose(
        ObservationNorm(loc=torch.arange(4.0), scale=torch.full((4,), 0.5), in_keys=["observation"]),
        ObservationNorm(loc=0.5, scale=2.0, in_keys=["observation"], standard_normal=True),
        RewardScaling(1.0, 2.0),
        RewardSum(),
        StepCounter(),
    )
    controller = check(transforms, linear(4), vectors(), tmp_path)
    assert list(controller.inputs) == ["observation"] and not controller.contract.memories


@pytest.mark.parametrize("version", [VecNorm, VecNormV2])
def test_running_normalisation_is_exported_as_it_stands_and_goes_on_in_the_training(
    version: Any, tmp_path: Path
) -> None:
    norm = (
        VecNormV2(in_keys=["observation"]) if version is VecNormV2 else VecNorm(in_keys=["observation"], new_api=False)
    )
    base = vectors()
    env = TransformedEnv(base, norm)
    env.rollout(20)
    norm.freeze()
    before = {name: value.clone() for name, value in norm.to_observation_norm().state_dict().items()}
    path = export_policy(linear(4), base.fake_tensordict(), tmp_path / "policy", transforms=env)
    assert_runs_as_in(env, linear(4), path, base, STEPS)
    after = norm.to_observation_norm().state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_double_observations_become_single_and_actions_become_double_again(tmp_path: Path) -> None:
    spec = Bounded(-1, 1, (2,), dtype=torch.float64)
    controller = check(DoubleToFloat(), linear(4), vectors(torch.float64, spec=spec), tmp_path)
    assert controller.inputs["observation"].dtype == "float64"


def test_integers_become_numbers(tmp_path: Path) -> None:
    base = ScriptedEnv({"observation": noise(97, 4).to(torch.int64)}, Unbounded((2,)))
    check(DTypeCastTransform(torch.int64, torch.float32, in_keys=["observation"]), linear(4), base, tmp_path)


def test_keys_are_joined_renamed_and_reshaped(tmp_path: Path) -> None:
    base = ScriptedEnv({"left": noise(97, 2, 3), "right": noise(97, 5, seed=1), "other": noise(97, 2)}, Unbounded((2,)))
    transforms = Compose(
        PermuteTransform((-1, -2), in_keys=["left"]),
        FlattenObservation(-2, -1, in_keys=["left"], allow_positive_dim=False),
        UnsqueezeTransform(-1, in_keys=["right"]),
        SqueezeTransform(-1, in_keys=["right"]),
        RenameTransform(["right"], ["renamed"]),
        CatTensors(["left", "renamed"], "all", del_keys=False),
    )
    controller = check(transforms, linear(11, "all"), base, tmp_path)
    assert list(controller.inputs) == ["left", "right"]


@pytest.mark.parametrize("padding", ["same", "constant"])
def test_frames_are_stacked_and_start_anew_after_a_reset(padding: str, tmp_path: Path) -> None:
    frames = CatFrames(N=3, dim=-1, in_keys=["observation"], out_keys=["frames"], padding=padding, padding_value=2)
    controller = check(frames, linear(12, "frames"), vectors(), tmp_path)
    assert controller.contract.memories[0].name == "observation_frames"


def test_a_step_counter_that_is_read_counts_from_the_reset(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = torch.nn.Linear(5, 2)
    policy = TensorDictModule(
        lambda observation, count: network(torch.cat([observation, count.to(torch.float32)], -1)),
        in_keys=["observation", "step_count"],
        out_keys=["action"],
    )
    controller = check(StepCounter(), policy, vectors(), tmp_path)
    assert [memory.name for memory in controller.contract.memories] == ["step_count"]


def test_primers_start_memories(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = torch.nn.Linear(7, 5)

    def step(observation: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = torch.tanh(network(torch.cat([observation, state], -1)))
        return result[..., :2], result[..., 2:]

    policy = TensorDictModule(step, in_keys=["observation", "state"], out_keys=["action", ("next", "state")])
    primer = TensorDictPrimer(Composite(state=Unbounded((3,))), default_value=0.7)
    check(primer, policy, vectors(), tmp_path)


def test_the_init_tracker_is_the_controller(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lstm = LSTMModule(input_size=4, hidden_size=6, in_key="observation", out_key="embedded")
    policy = TensorDictSequential(lstm, linear(6, "embedded"))
    transforms = Compose(InitTracker(), lstm.make_tensordict_primer())
    controller = check(transforms, policy, vectors(), tmp_path)
    assert list(controller.inputs) == ["observation"]


def test_actions_are_scaled_behind_the_policy(tmp_path: Path) -> None:
    spec = Bounded(torch.tensor([-3.0, 1.0]), torch.tensor([5.0, 2.0]))
    check(Compose(ActionScaling(), StepCounter()), linear(4), vectors(spec=spec), tmp_path)


def test_discrete_actions_become_continuous_behind_the_policy(tmp_path: Path) -> None:
    torch.manual_seed(0)
    base = vectors(spec=Bounded(-3.0, 5.0, (1,)))
    network = TensorDictModule(torch.nn.Linear(4, 6), in_keys=["observation"], out_keys=["action_value"])
    head = TensorDictModule(lambda value: value.argmax(-1, keepdim=True), in_keys=["action_value"], out_keys=["action"])
    check(ActionDiscretizer(num_intervals=6), TensorDictSequential(network, head), base, tmp_path)


@pytest.mark.matrix
@pytest.mark.parametrize("interpolation", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(21, 21), (50, 16)])
def test_images_are_resized_as_torchvision_does_it_and_without_it(
    interpolation: str, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_torchvision()
    torch.manual_seed(0)
    base = ScriptedEnv({"pixels": noise(31, 42, 32, 3, dtype=torch.uint8)}, Unbounded((2,)))
    transforms = Compose(ToTensorImage(), Resize(*size, interpolation=interpolation), GrayScale())
    network = torch.nn.Sequential(torch.nn.Flatten(-3), torch.nn.Linear(size[0] * size[1], 2))
    policy = TensorDictModule(network, in_keys=["pixels"], out_keys=["action"])
    env = TransformedEnv(base, transforms)
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            patch.setitem(sys.modules, name, None)
        path = export_policy(policy, base.fake_tensordict(), tmp_path / "policy", transforms=env)
    controller = assert_runs_as_in(env, policy, path, base, steps=60)
    assert controller.inputs["pixels"].dtype == "uint8"


def test_images_are_cropped_as_torchvision_does_it(tmp_path: Path) -> None:
    import_torchvision()
    torch.manual_seed(0)
    base = ScriptedEnv({"pixels": noise(31, 20, 15, 3, dtype=torch.uint8)}, Unbounded((2,)))
    transforms = Compose(ToTensorImage(), CenterCrop(9, 18), CatFrames(N=2, dim=-3))
    network = torch.nn.Sequential(torch.nn.Flatten(-3), torch.nn.Linear(2 * 3 * 9 * 18, 2))
    check(transforms, TensorDictModule(network, in_keys=["pixels"], out_keys=["action"]), base, tmp_path, steps=60)


def test_the_batch_of_an_environment_is_reshaped_there_and_back(tmp_path: Path) -> None:
    transforms = Compose(
        BatchSizeTransform(reshape_fn=lambda data: data.reshape(1, 1)), ObservationNorm(0.5, 2.0, ["observation"])
    )
    check(transforms, linear(4), vectors(), tmp_path)


def test_transforms_work_for_any_number_of_robots(tmp_path: Path) -> None:
    transforms = [
        ObservationNorm(loc=0.5, scale=2.0, in_keys=["observation"]),
        CatFrames(N=3, dim=-1, in_keys=["observation"], out_keys=["frames"]),
        ActionScaling(loc=torch.ones(2), scale=torch.tensor([2.0, 3.0])),
    ]
    paths = [
        export_policy(
            linear(12, "frames"), example, tmp_path / str(number), transforms=transforms, dynamic_batch=number > 0
        )
        for number, example in enumerate(
            (
                {"observation": torch.zeros(4)},
                TensorDict({"observation": torch.zeros(2, 4)}, [2]),
            )
        )
    ]
    robots = [Controller.load(paths[0]) for _ in range(3)]
    together = Controller.load(paths[1], sizes={"batch": 3})
    for step, values in enumerate(noise(60, 3, 4).numpy()):
        if step % 13 == 0:
            for controller in (*robots, together):
                controller.reset()
        pairs = zip(robots, values, strict=True)
        expected = [robot.step({"observation": value})["action"].copy() for robot, value in pairs]
        np.testing.assert_allclose(together.step({"observation": values})["action"], expected, rtol=1e-5, atol=1e-5)


def test_an_interpolation_without_a_common_form_is_refused(tmp_path: Path) -> None:
    import_torchvision()
    policy = TensorDictModule(torch.nn.Flatten(-3), in_keys=["pixels"], out_keys=["action"])
    example = {"pixels": torch.zeros(20, 20, 3, dtype=torch.uint8)}
    transforms = [ToTensorImage(), Resize(8, interpolation="lanczos")]
    with pytest.raises(PolicyError, match=r"lanczos.*nearest, nearest-exact, bilinear, bicubic"):
        export_policy(policy, example, tmp_path / "policy", transforms=transforms)


@pytest.mark.parametrize(
    ("transform", "key", "message"),
    [
        (lambda: TimeMaxPool(in_keys=["observation"], T=3), "observation", "TimeMaxPool.*memories="),
        (lambda: TargetReturn(10.0, in_keys=["observation"], out_keys=["target"]), "target", "TargetReturn"),
        (lambda: ObservationNorm(in_keys=["observation"]), "observation", "ObservationNorm was never initialised"),
        (lambda: VecNormV2(in_keys=["observation"]), "observation", "VecNormV2 has no statistics"),
        (
            lambda: TensorDictPrimer(Composite(observation=Unbounded((4,))), random=True),
            "observation",
            r"TensorDictPrimer\(random=True\)",
        ),
    ],
)
def test_transforms_without_a_form_are_named(transform: Any, key: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=message):
        export_policy(linear(4, key), {"observation": torch.zeros(4)}, tmp_path / "policy", transforms=transform())
    assert not list(tmp_path.iterdir())


class Difference(Transform):
    """A custom transform that keeps its own state."""

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        last, self.last = getattr(self, "last", torch.zeros_like(obs)), obs
        return obs - last


class Count(Transform):
    """A custom transform that counts its calls."""

    count = 0

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return obs


class Doubled(Transform):
    """A custom transform without state."""

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        return 2 * obs

    def _reset(self, tensordict: Any, tensordict_reset: Any) -> Any:
        return self._call(tensordict_reset)


@pytest.mark.parametrize("kind", [Difference, Count])
def test_transforms_of_users_that_remember_by_themselves_are_named(kind: Any, tmp_path: Path) -> None:
    transform = kind(in_keys=["observation"], out_keys=["observation"])
    with pytest.raises(PolicyError, match=rf"{kind.__name__} changes its own state in each step.*memories="):
        export_policy(linear(4), {"observation": torch.zeros(4)}, tmp_path / "policy", transforms=transform)
    assert not hasattr(transform, "last") and transform.__dict__.get("count", 0) == 0


def test_transforms_of_users_that_compute_are_exported(tmp_path: Path) -> None:
    check(Doubled(in_keys=["observation"], out_keys=["observation"]), linear(4), vectors(), tmp_path, steps=50)


def test_what_is_no_transform_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"transforms must be .* got int"):
        export_policy(linear(4), {"observation": torch.zeros(4)}, tmp_path / "policy", transforms=3)


def test_a_q_policy_with_a_discrete_action(tmp_path: Path) -> None:
    torch.manual_seed(0)
    base = vectors(spec=Categorical(3))
    network = TensorDictModule(torch.nn.Linear(4, 3), in_keys=["observation"], out_keys=["action_value"])
    policy = TensorDictSequential(network, QValueModule(spec=base.action_spec))
    check(ObservationNorm(loc=1.0, scale=2.0, in_keys=["observation"]), policy, base, tmp_path)
