"""The adapter of mjlab leaves environments as they are and what training adds out, and refuses what it cannot do."""

from pathlib import Path
from typing import Any

import pytest
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.envs.mdp import dr, joint_pos_rel
from mjlab.managers.event_manager import EventTermCfg
from mjlab.managers.scene_entity_config import SceneEntityCfg
from mjlab.tasks.cartpole.cartpole_env_cfg import cartpole_balance_env_cfg
from mjlab.utils.noise import UniformNoiseCfg

import exploy
from exploy.errors import CheckpointError, FactoryError, InvalidEnvironmentError, SensorBiasWarning
from exploy.simulators.mjlab import MjlabEnvironment
from exploy.simulators.mjlab.tasks import load_task
from exploy.simulators.task_settings import apply_settings
from tests.support.environments import make_actor
from tests.support.mjlab_exports import CART_POLE, G1, make_task
from tests.support.simulator_exports import compare

ACTOR = make_actor(5, 1)


def trained_cart_pole(**settings: Any) -> ManagerBasedRlEnv:
    """The cart-pole as it is trained: with noise, and encoders whose biases an event draws."""
    cfg = cartpole_balance_env_cfg()
    cfg.seed, cfg.episode_length_s = 0, 1.0
    cfg.observations["actor"].terms["cart_pos"].noise = UniformNoiseCfg(n_min=-0.5, n_max=0.5)
    cfg.observations["actor"].terms["cart_pos"].params["biased"] = True
    params = {"asset_cfg": SceneEntityCfg("cartpole"), "bias_range": (0.1, 0.2)}
    cfg.events["encoder_bias"] = EventTermCfg(mode="startup", func=dr.encoder_bias, params=params)
    apply_settings(cfg, settings)
    return ManagerBasedRlEnv(cfg, device="cpu")


def adapted(env: ManagerBasedRlEnv, **options: Any) -> MjlabEnvironment:
    with pytest.warns(SensorBiasWarning):
        return MjlabEnvironment(env, **options)


def test_noise_and_biases_are_left_out_and_put_back(tmp_path: Path) -> None:
    raw = trained_cart_pole()
    bias, configuration = (
        raw.scene["cartpole"].data.encoder_bias,
        raw.observation_manager.get_term_cfg("actor", "cart_pos"),
    )
    drawn = bias.clone()
    with pytest.warns(SensorBiasWarning, match=r"event encoder_bias \(startup\); cartpole has up to 0\.1"):
        env = MjlabEnvironment(raw)
    file = exploy.export(env, ACTOR, tmp_path / "policy.onnx", strict=False).path
    assert compare(env, ACTOR, file, steps=30).tally.ok
    joint_pos, observed = raw.scene["cartpole"].data.joint_pos, env.compute_observations()
    assert observed[0, 0] == joint_pos[0, 0]
    assert raw.scene["cartpole"].data.encoder_bias is bias
    assert torch.equal(bias, drawn) and drawn.any()
    assert isinstance(configuration.noise, UniformNoiseCfg)
    assert raw.observation_manager.compute_group("actor")[0, 0] != joint_pos[0, 0]


def test_a_bias_that_each_reset_draws_is_left_out_too(tmp_path: Path) -> None:
    env = adapted(trained_cart_pole(**{"events.encoder_bias.mode": "reset"}))
    file = exploy.export(env, ACTOR, tmp_path / "policy.onnx", strict=False).path
    assert compare(env, ACTOR, file, steps=30).tally.ok
    assert env.compute_observations()[0, 0] == env.env.scene["cartpole"].data.joint_pos[0, 0]


def test_hooks_are_gone_after_each_step_and_after_an_error() -> None:
    env = adapted(trained_cart_pole())
    env.step(env.empty_actions())
    owners = (env.env, env.env.action_manager, env.env.observation_manager)
    before = [set(vars(owner)) for owner in owners]
    env.step(env.empty_actions())
    assert [set(vars(owner)) for owner in owners] == before
    env.register_evaluation_hooks(update=lambda: None, reset=lambda: None, evaluate_substep=_fail)
    with pytest.raises(RuntimeError, match="in a hook"):
        env.step(env.empty_actions())
    assert [set(vars(owner)) for owner in owners] == before
    assert env.env.scene["cartpole"].data.encoder_bias.any()


def _fail(sub_step: int) -> None:
    raise RuntimeError("in a hook")


def test_unused_components_are_not_registered() -> None:
    names = {item.name for item in adapted(trained_cart_pole()).context_manager().get_input_components()}
    assert names == {"obj.cartpole.joints.pos", "obj.cartpole.joints.vel"}


def test_several_robots_are_refused() -> None:
    with pytest.raises(InvalidEnvironmentError, match=r"has 2.*cfg\.scene\.num_envs = 1"):
        MjlabEnvironment(trained_cart_pole(**{"scene.num_envs": 2}))


def test_groups_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InvalidEnvironmentError, match="policy, but the environment has actor, critic"):
        MjlabEnvironment(trained_cart_pole(), groups=("policy",))


def test_random_delays_are_refused_by_the_name_of_their_observation() -> None:
    lags = {"observations.actor.terms.cart_vel.delay_max_lag": 2}
    with pytest.raises(InvalidEnvironmentError, match=r"'cart_vel'.*from 0 to 2 steps.*delay_min_lag"):
        MjlabEnvironment(trained_cart_pole(**lags))


def noisy_position(env: Any, **params: Any) -> torch.Tensor:
    position = joint_pos_rel(env, **params)
    return position + torch.randn_like(position)


def test_observations_that_draw_random_numbers_are_refused_with_their_line(tmp_path: Path) -> None:
    env = adapted(trained_cart_pole(**{"observations.actor.terms.cart_pos.func": noisy_position}))
    with pytest.raises(exploy.errors.RandomOperatorError, match=r"test_environment\.py:\d+ \(in noisy_position\)"):
        exploy.export(env, ACTOR, tmp_path / "policy.onnx", strict=False)


class Filter:
    """An observation with a state of its own, which the adapter does not know."""

    def __init__(self, cfg: Any, env: Any):
        self.value = torch.zeros(1, 1)

    def __call__(self, env: Any, **params: Any) -> torch.Tensor:
        self.value = 0.9 * self.value + 0.1 * joint_pos_rel(env, **params)
        return self.value

    def reset(self, env_ids: Any = None) -> None:
        self.value = torch.zeros(1, 1)


def test_state_that_the_adapter_does_not_know_is_reported() -> None:
    env = adapted(trained_cart_pole(**{"observations.actor.terms.cart_pos.func": Filter}))
    diagnosis = exploy.check_environment(env, ACTOR)
    assert any(finding.tensor.endswith(".value") for finding in diagnosis.errors), str(diagnosis)


# -- tasks by name ---------------------------------------------------------------------------------------------------


def test_an_unknown_task_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(FactoryError, match=rf"no task 'Mjlab-Velocity-Flat-G1'\. Similar: .*{G1}"):
        load_task("Mjlab-Velocity-Flat-G1", untrained=True)


def test_a_task_that_tracks_a_motion_needs_its_file() -> None:
    with pytest.raises(FactoryError, match=r"--set commands\.motion\.motion_file=FILE"):
        load_task("Mjlab-Tracking-Flat-Unitree-G1", untrained=True)


def test_a_task_needs_a_checkpoint() -> None:
    with pytest.raises(FactoryError, match=r"--checkpoint model\.pt"):
        load_task(CART_POLE)


def test_an_unknown_setting_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(FactoryError, match=r"no nconmaxx in sim\. It has: nconmax"):
        load_task(CART_POLE, untrained=True, settings={"sim.nconmaxx": 1})


def test_a_checkpoint_gives_the_weights_of_the_actor(tmp_path: Path) -> None:
    actor: Any = make_task(CART_POLE, tmp_path)[1]
    observations = torch.ones(1, 5)
    weights = {name: value + 0.1 for name, value in actor.inference.model.state_dict().items()}
    torch.save({"actor_state_dict": weights, "critic_state_dict": {}, "iter": 3, "infos": None}, tmp_path / "model.pt")
    loaded: Any = load_task(CART_POLE, tmp_path / "model.pt")[1]
    found = loaded.inference.model.state_dict()
    assert all(torch.equal(found[name], value) for name, value in weights.items())
    assert not torch.equal(loaded(observations), actor(observations))


def test_a_checkpoint_of_another_task_is_refused_with_the_sizes_of_groups(tmp_path: Path) -> None:
    weights = {"mlp.0.weight": torch.zeros(64, 99), "mlp.0.bias": torch.zeros(64)}
    torch.save({"actor_state_dict": weights}, tmp_path / "model.pt")
    with pytest.raises(
        CheckpointError, match=r"actor 5 \(cart_pos 1, pole_angle 2, cart_vel 1, pole_vel 1\), and 1 act"
    ):
        load_task(CART_POLE, tmp_path / "model.pt")
