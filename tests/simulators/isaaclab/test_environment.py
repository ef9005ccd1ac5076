"""The adapter of Isaac Lab leaves environments as they are and what training adds out, and refuses what it cannot."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from isaaclab.envs import ManagerBasedRLEnv
from isaaclab.envs.mdp import events
from isaaclab.managers import EventTermCfg, SceneEntityCfg
from isaaclab.utils.modifiers import DigitalFilterCfg
from isaaclab.utils.noise import UniformNoiseCfg
from isaaclab_tasks.core.cartpole.cartpole_manager_env_cfg import CartpoleEnvCfg

import exploy
from exploy.errors import FactoryError, InvalidEnvironmentError, RandomizedConstantWarning
from exploy.simulators.isaaclab import IsaacLabEnvironment
from exploy.simulators.isaaclab.tasks import load_task
from tests.support.environments import make_actor
from tests.support.isaaclab_exports import CART_POLE
from tests.support.simulator_exports import compare
from tests.support.small_usd import write_cart_pole, write_ground

pytestmark = pytest.mark.filterwarnings("ignore")  # of Isaac Lab, Newton and Warp

ACTOR = make_actor(4, 1)


def cart_pole(folder: Path, num_envs: int = 1) -> ManagerBasedRLEnv:
    """The cart-pole with noise, a filtered observation, and a centre of mass that an event moves."""
    config: Any = CartpoleEnvCfg()
    config.sim.device, config.scene.num_envs, config.seed, config.episode_length_s = "cpu", num_envs, 1, 1.0
    config.sim.physics = config.sim.physics.newton_mjwarp
    config.sim.physics.use_cuda_graph = False
    config.scene.robot.spawn.usd_path = str(write_cart_pole(folder / "cart_pole.usda"))
    config.scene.ground.spawn.usd_path = str(write_ground(folder / "ground.usda"))
    config.observations.policy.enable_corruption = True
    config.observations.policy.joint_pos_rel.noise = UniformNoiseCfg(n_min=0.1, n_max=0.2)
    config.observations.policy.joint_vel_rel.modifiers = [DigitalFilterCfg(A=[0.5], B=[0.5])]
    moved = {"asset_cfg": SceneEntityCfg("robot", body_names="pole"), "com_range": {"x": (-0.01, 0.01)}}
    config.events.moved = EventTermCfg(func=events.randomize_rigid_body_com, mode="startup", params=moved)
    return ManagerBasedRLEnv(config)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IsaacLabEnvironment]:
    env = cart_pole(tmp_path_factory.mktemp("cart_pole"))
    env.reset()
    with pytest.warns(RandomizedConstantWarning, match=r"event moved \(startup\) has drawn at random centres of mass"):
        adapted = IsaacLabEnvironment(env)
    yield adapted
    env.close()


def test_noise_is_left_out_and_put_back(trained: IsaacLabEnvironment) -> None:
    raw = trained.env
    configuration = raw.observation_manager._group_obs_term_cfgs["policy"][0]
    trained.reset()
    expected = raw.scene["robot"].data.joint_pos.torch - raw.scene["robot"].data.default_joint_pos.torch
    assert torch.equal(trained.compute_observations()[:, :2], expected)
    assert isinstance(configuration.noise, UniformNoiseCfg)
    assert (raw.observation_manager.compute_group("policy")[:, :2] - expected > 0.09).all()


def test_filters_of_observations_are_memories(trained: IsaacLabEnvironment, tmp_path: Path) -> None:
    names = {item.name for item in trained.context_manager().get_memory_components()}
    assert names == {"modifier.policy.joint_vel_rel.0.y_n"}
    file = exploy.export(trained, ACTOR, tmp_path / "policy.onnx", strict=False).path
    assert compare(trained, ACTOR, file, steps=30).tally.ok


def test_hooks_are_gone_after_each_step_and_after_an_error(trained: IsaacLabEnvironment) -> None:
    raw = trained.env
    owners = (raw, raw.action_manager, raw.observation_manager, raw.scene)
    trained.step(trained.empty_actions())
    before = [set(vars(owner)) for owner in owners]
    trained.register_evaluation_hooks(update=lambda: None, reset=lambda: None, evaluate_substep=_fail)
    with pytest.raises(RuntimeError, match="in a hook"):
        trained.step(trained.empty_actions())
    assert [set(vars(owner)) for owner in owners] == before
    trained.register_evaluation_hooks(update=lambda: None, reset=lambda: None, evaluate_substep=lambda sub_step: None)


def _fail(sub_step: int) -> None:
    raise RuntimeError("in a hook")


def test_groups_that_do_not_exist_are_refused(trained: IsaacLabEnvironment) -> None:
    with pytest.raises(InvalidEnvironmentError, match="actor, but the environment has policy"):
        IsaacLabEnvironment(trained.env, groups=("actor",))


def test_motors_of_the_simulator_itself_are_refused(trained: IsaacLabEnvironment) -> None:
    with pytest.raises(InvalidEnvironmentError, match=r"cart_actuator.*implicit actuators|use_newton_actuators"):
        IsaacLabEnvironment(trained.env, motors=True)


def test_a_second_environment_in_a_process_is_refused(trained: IsaacLabEnvironment) -> None:
    with pytest.raises(FactoryError, match=r"one environment at a time.*env\.close\(\)"):
        load_task(CART_POLE, untrained=True)
