"""Tasks of Isaac Lab by their names, with checkpoints; a process can have one environment at a time."""

from pathlib import Path
from typing import Any

import pytest
import torch

from exploy.errors import CheckpointError, FactoryError, InvalidEnvironmentError, RandomizedConstantWarning
from exploy.simulators.isaaclab.tasks import load_task
from tests.support.isaaclab_exports import CART_POLE, FLAT, task_made

pytestmark = pytest.mark.filterwarnings("ignore")  # of Isaac Lab, Newton and Warp


@pytest.mark.expensive
def test_several_robots_are_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"scene.num_envs": 2}
    expected = r"has 2.*cfg\.scene\.num_envs = 1"
    with pytest.raises(InvalidEnvironmentError, match=expected), task_made(CART_POLE, tmp_path, **settings):
        pass


def test_an_unknown_task_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(FactoryError, match=rf"no task 'Isaac-Velocity-AnymalD'\. Similar: .*{FLAT}"):
        load_task("Isaac-Velocity-AnymalD", untrained=True)


def test_a_task_without_managers_is_refused() -> None:
    with pytest.raises(FactoryError, match=r"Isaac-Cartpole-Direct is not made of managers.*my_adapter\.py:make"):
        load_task("Isaac-Cartpole-Direct", untrained=True)


def test_a_task_needs_a_checkpoint() -> None:
    with pytest.raises(FactoryError, match=r"--checkpoint model\.pt"):
        load_task(CART_POLE)


def test_an_unknown_setting_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(FactoryError, match=r"no decimatoin\. It has: .*decimation"):
        load_task(CART_POLE, untrained=True, settings={"decimatoin": 1})


@pytest.mark.expensive
def test_events_that_move_centres_of_mass_are_left_out_of_tasks(tmp_path: Path) -> None:
    with (
        pytest.warns(RandomizedConstantWarning, match="The event base_com is left out.*centres of mass"),
        task_made(FLAT, tmp_path) as made,
    ):
        assert "base_com" not in made[0].env.event_manager.active_terms.get("startup", [])


@pytest.mark.expensive
def test_a_checkpoint_gives_the_weights_of_the_actor(tmp_path: Path) -> None:
    with task_made(CART_POLE, tmp_path) as (_, actor):
        model: Any = actor
        weights = {name: value + 0.1 for name, value in model.inference.model.state_dict().items()}
    torch.save({"actor_state_dict": weights, "critic_state_dict": {}, "iter": 3, "infos": None}, tmp_path / "model.pt")
    with task_made(CART_POLE, tmp_path, tmp_path / "model.pt") as (_, actor):
        loaded: Any = actor
        found = loaded.inference.model.state_dict()
        assert all(torch.equal(found[name], value) for name, value in weights.items())


@pytest.mark.expensive
def test_a_checkpoint_of_another_task_is_refused_with_the_sizes_of_groups(tmp_path: Path) -> None:
    weights = {"mlp.0.weight": torch.zeros(64, 99), "mlp.0.bias": torch.zeros(64)}
    torch.save({"actor_state_dict": weights}, tmp_path / "model.pt")
    expected = r"policy 4 \(joint_pos_rel 2, joint_vel_rel 2\), and 1 actions"
    with pytest.raises(CheckpointError, match=expected), task_made(CART_POLE, tmp_path, tmp_path / "model.pt"):
        pass
