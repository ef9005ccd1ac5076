"""Isaac Lab 3's AnymalD task: Warp computes what its observations read, and torch code stands for that."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import exploy
from exploy.errors import SubstituteError
from exploy.simulators.articulation_data import NAMES, TorchArticulationData, outdate
from exploy.simulators.isaaclab_substitutes import isaaclab_substitutes
from exploy.simulators.rotations import rotated
from exploy.verify.substitute_trials import try_substitute
from exploy.verify.watched_calls import WatchedCall, functions_of
from tests.support.environments import make_actor
from tests.support.isaaclab_anymal import Anymal, make_flat_anymal

pytestmark = pytest.mark.filterwarnings("default")  # of Isaac Lab, Newton and Warp


@pytest.fixture(scope="module")
def anymal() -> Iterator[Anymal]:
    env = Anymal(make_flat_anymal())
    for _ in range(3):
        env.step(env.empty_actions())
    yield env
    env.env.close()


def ready(env: Anymal) -> list[Any]:
    """The substitutes for what the task calls."""
    return [item for item in isaaclab_substitutes() if not item.name.endswith("DelayBuffer")]


def state_of(env: Anymal) -> list[Any]:
    """The code of the class, and what it caches."""
    data = env.robot.data
    members: list[Any] = [item.fget for item in vars(type(data)).values() if isinstance(item, property)]
    buffers = [getattr(data, f"_{name}", None) for name in NAMES]
    stamps = [None if item is None else (item.timestamp, id(item.data)) for item in buffers]
    gravity = data.projected_gravity_b.torch
    return [[item.__code__ for item in members], stamps, gravity.tolist(), data.joint_pos_target.torch.tolist()]


def test_the_task_is_sound(anymal: Anymal, tmp_path: Path):
    actor = make_actor(anymal.empty_actor_observations().shape[1], 12)
    manager = anymal.context_manager()
    with manager.registrations_undone():
        manager.add_substitutes(ready(anymal))
        diagnosis = exploy.check_environment(anymal, actor, steps=10, reset_within=40)
        assert diagnosis.ok, str(diagnosis)
        result = exploy.export(anymal, actor, tmp_path / "policy.onnx", strict=False, reset_within=40)
        used = {item.original.rpartition(".")[2]: item for item in result.contract.substitutes or ()}
        assert list(used) == ["CircularBuffer", "_set_index", "ArticulationData"]
        assert all(item.comparisons >= 50 and item.largest_error < 1e-6 for item in used.values())
        session = exploy.SessionWrapper(tmp_path, "policy.onnx", actor)
        ok, _ = exploy.evaluate(
            anymal,
            manager,
            session,
            100,
            verbose=False,
            pause_on_failure=False,
            reset_from_onnx_counter_steps=None,
        )
        assert ok


@pytest.mark.parametrize("name", NAMES)
def test_every_property_is_equal_at_random_poses_and_velocities(anymal: Anymal, name: str):
    data, item = anymal.robot.data, isaaclab_substitutes()[-1]
    getattr(data, name)
    trial = try_substitute(item, [WatchedCall(item, name, functions_of(item)[name], (data,), {})])
    assert trial.comparisons >= 50 and trial.largest_error < 1e-5


class WrongDirection:
    """The planted error: gravity is rotated from the body to the world."""

    @property
    def projected_gravity_b(self: Any) -> Any:
        cache = self._projected_gravity_b
        gravity = self.GRAVITY_VEC_W.torch
        cache.data.torch.copy_(
            rotated(self.root_link_pose_w.torch[:, 3:], gravity / gravity.norm(dim=-1, keepdim=True))
        )
        cache.timestamp = self._sim_timestamp
        return cache.data


def test_a_planted_error_is_refused_with_its_line(anymal: Anymal, tmp_path: Path):
    manager = anymal.context_manager()
    before = state_of(anymal)
    line = WrongDirection.projected_gravity_b.fget.__code__.co_firstlineno  # type: ignore[attr-defined]
    with manager.registrations_undone():
        manager.add_substitute(exploy.substitute(type(anymal.robot.data), WrongDirection, prepare=outdate))
        with pytest.raises(SubstituteError, match=rf"{Path(__file__).name}:{line} .*element \[0, \d\]"):
            exploy.export(anymal, make_actor(72, 12), tmp_path / "policy.onnx", strict=False)
    assert state_of(anymal) == before and not list(tmp_path.iterdir())


def test_after_an_export_the_class_and_what_it_caches_are_as_before(anymal: Anymal, tmp_path: Path):
    manager = anymal.context_manager()
    before = state_of(anymal)
    assert TorchArticulationData.__name__ not in str(before)
    with manager.registrations_undone():
        manager.add_substitutes(ready(anymal))
        exploy.export(anymal, make_actor(72, 12), tmp_path / "policy.onnx", strict=False, initial_memory="found")
    assert state_of(anymal) == before
    assert isinstance(anymal.robot.data.projected_gravity_b.torch, torch.Tensor)
