"""The ring buffers and delays of mjlab, with their substitutes: in its cart-pole task, and in a robot of ours."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.tasks.cartpole.cartpole_env_cfg import cartpole_balance_env_cfg
from mjlab.utils.buffers import CircularBuffer, DelayBuffer

import exploy
from exploy import ExportableEnvironment, Input, Memory, Output
from exploy.diagnosis.finding import FindingKind
from exploy.errors import SubstituteError
from exploy.simulators.mjlab_substitutes import mjlab_substitutes
from exploy.simulators.ring_buffers import ShiftingBuffer, as_ring, in_order_of_time
from exploy.verify.substitute_trials import try_substitute
from exploy.verify.watched_calls import WatchedCall, functions_of
from tests.support.environments import TestEnvironment, assert_agrees, make_actor

Hook = Callable[..., None]


class CartPole(ExportableEnvironment):
    """mjlab's task, with a history of three frames, a constant delay of two steps, and episodes of 30 steps."""

    def __init__(self, max_lag: int = 2) -> None:
        super().__init__()
        config = cartpole_balance_env_cfg(play=True)
        config.episode_length_s, config.seed = 30 * 0.05, 1
        group = config.observations["actor"]
        group.terms["pole_angle"].history_length = 3
        group.terms["cart_vel"].delay_min_lag, group.terms["cart_vel"].delay_max_lag = 2, max_lag
        group.terms["pole_vel"].history_length = 2
        group.terms["pole_vel"].delay_min_lag, group.terms["pole_vel"].delay_max_lag = 1, 1
        config.observations = {"actor": group}
        self.env = ManagerBasedRlEnv(config, device="cpu")
        self.env.reset()
        self._sub_step = 0
        self._hooks: tuple[Hook, ...] = (_ignore, _ignore, _ignore)
        self._register()

    def _register(self) -> None:
        env, manager = self.env, self.env.observation_manager
        histories = manager._group_obs_term_history_buffer["actor"]
        delays = manager._group_obs_term_delay_buffer["actor"]
        rings = {**histories, **{f"delayed_{name}": item._buffer for name, item in delays.items()}}
        self.context_manager().add_components(
            [
                Input("pos", lambda: env.sim.data.qpos[:, :]),
                Input("vel", lambda: env.sim.data.qvel[:, :]),
                Output("effort", lambda: env.scene["cartpole"].data.joint_effort_target),
                *(Memory(f"{name}_frames", partial(getattr, item, "_buffer")) for name, item in rings.items()),
                *(Memory(f"{name}_pushes", partial(getattr, item, "_num_pushes")) for name, item in rings.items()),
                *(Memory(f"{name}_lags", partial(getattr, item, "_current_lags")) for name, item in delays.items()),
            ]
        )

    def compute_observations(self) -> torch.Tensor:
        return self.env.observation_manager.compute_group("actor", update_history=True)

    def process_actions(self, actions: torch.Tensor) -> None:
        self.env.action_manager.process_action(actions)

    def apply_actions(self) -> None:
        self.env.action_manager.apply_action()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        env, (update, reset, evaluate_substep) = self.env, self._hooks
        apply, compute, reset_rows = env.action_manager.apply_action, env.observation_manager.compute, env._reset_idx
        self._sub_step = 0

        def applied() -> None:
            apply()
            evaluate_substep(self._sub_step)
            self._sub_step += 1

        def computed(**options: Any) -> Any:
            update()
            return compute(**options)

        def was_reset(rows: Any) -> None:
            reset_rows(rows)
            reset()

        env.action_manager.apply_action, env.observation_manager.compute, env._reset_idx = applied, computed, was_reset
        try:
            observations, _, terminated, truncated, _ = env.step(actions)
        finally:
            for owner, name in (
                (env.action_manager, "apply_action"),
                (env.observation_manager, "compute"),
                (env, "_reset_idx"),
            ):
                vars(owner).pop(name)
        return observations["actor"], bool((terminated | truncated).any())

    def observations_reset(self) -> torch.Tensor:
        self._hooks[0]()
        return self.compute_observations()

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, *self.env.observation_manager.group_obs_dim["actor"])

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, self.env.action_manager.total_action_dim)

    def metadata(self) -> dict[str, Any]:
        return {"sim_dt": self.env.physics_dt}

    @property
    def decimation(self) -> int:
        return self.env.cfg.decimation

    def register_evaluation_hooks(self, update: Hook, reset: Hook, evaluate_substep: Hook) -> None:
        self._hooks = (update, reset, evaluate_substep)

    def get_observation_names(self) -> list[str]:
        return [f"obs_{index}" for index in range(self.empty_actor_observations().shape[1])]


class DelayedTargets(TestEnvironment):
    """A robot with hooks, whose targets are delayed at the rate of sub-steps, with two robots that are reset alone."""

    batch_size = 2
    num_observations = 6

    def __init__(self) -> None:
        super().__init__()
        self.pos = torch.zeros(2, 3)
        self.history = CircularBuffer(4, 2, "cpu")
        self.history.append(self.pos)
        self.delay = DelayBuffer(3, 3, 2, "cpu")
        self.delay.append(self.targets)
        self.applied = torch.zeros(2, 2)
        self.context_manager().add_components(
            [
                Input("pos", lambda: self.pos),
                Output("applied", lambda: self.applied),
                Memory("frames", lambda: self.history._buffer),
                Memory("pushes", lambda: self.history._num_pushes),
                Memory("delay_frames", lambda: self.delay._buffer._buffer),
                Memory("delay_pushes", lambda: self.delay._buffer._num_pushes),
                Memory("delay_lags", lambda: self.delay._current_lags),
            ]
        )

    def observe(self) -> torch.Tensor:
        self.history.append(self.pos)
        return torch.cat([self.history.buffer.mean(1), self.history[torch.tensor([1, 3])]], -1)

    def apply_actions(self) -> None:
        self.delay.append(self.targets)
        self.applied = self.delay.compute()

    def move(self) -> None:
        self.pos += self.noise(self.pos)

    def restart(self) -> None:
        for rows in ([1], torch.tensor([0])):
            self.history.reset(rows)
            self.delay.reset(rows)


def _ignore(*_: object) -> None:
    pass


def rings_of(env: Any) -> list[Any]:
    if isinstance(env, DelayedTargets):
        return [env.history, env.delay._buffer]
    manager = env.env.observation_manager
    histories, delays = manager._group_obs_term_history_buffer, manager._group_obs_term_delay_buffer
    return [*histories["actor"].values(), *(item._buffer for item in delays["actor"].values())]


def state_of(env: Any) -> list[Any]:
    """The code of the classes, and the state of all buffers with the identity of their tensors."""
    members = (*vars(CircularBuffer).values(), *vars(DelayBuffer).values())
    functions: list[Any] = [item.fget if isinstance(item, property) else item for item in members]
    codes = [item.__code__ for item in functions if hasattr(item, "__code__")]
    rings = rings_of(env)
    return [codes, *((type(item), item._pointer, id(item._buffer), item._buffer.tolist()) for item in rings)]


def with_substitutes(env: Any) -> Any:
    if not env.context_manager().substitutes:
        env.context_manager().add_substitutes(mjlab_substitutes())
    return env


def warm(env: Any, steps: int) -> None:
    for _ in range(steps):
        env.step(env.empty_actions())


@pytest.mark.parametrize("make", [CartPole, DelayedTargets])
def test_environments_with_histories_and_delays_are_sound(make: Callable[[], Any], tmp_path: Path):
    env = with_substitutes(make())
    actor = make_actor(env.empty_actor_observations().shape[1], env.empty_actions().shape[1])
    warm(env, 5)
    diagnosis = exploy.check_environment(env, actor)
    assert diagnosis.ok, str(diagnosis)
    before = state_of(env)
    result = exploy.export(env, actor, tmp_path / "policy.onnx", strict=False)
    assert state_of(env) == before
    assert [(item.original.split(".")[-2:], item.largest_error) for item in result.contract.substitutes or ()] == [
        (["circular_buffer", "CircularBuffer"], 0.0),
        (["DelayBuffer", "_sample_lags"], 0.0),
    ]
    session = exploy.SessionWrapper(tmp_path, "policy.onnx", actor)
    ok, _ = exploy.evaluate(
        env,
        env.context_manager(),
        session,
        100,
        verbose=False,
        pause_on_failure=False,
        reset_from_onnx_counter_steps=None,
    )
    assert ok
    assert state_of(env)[0] == before[0]


def test_without_substitutes_the_pointer_is_found():
    (finding,) = exploy.check_environment(DelayedTargets(), make_actor(6)).errors
    assert finding.kind is FindingKind.CAPTURE_FAILED and "Python counter" in finding.what


def test_delays_that_are_drawn_at_random_are_still_refused():
    env = with_substitutes(DelayedTargets())
    env.delay.min_lag = 0
    errors = exploy.check_environment(env, make_actor(6)).errors
    assert FindingKind.RANDOM in {item.kind for item in errors}
    assert all("(in apply_actions)" in item.where for item in errors)  # the user's line, not that of the substitute


class ForgetsToFill(ShiftingBuffer):
    """The planted error: the first frame after a reset does not fill the history."""

    def append(self: Any, data: torch.Tensor) -> None:
        self._pointer = (self._pointer + 1) % self.max_length
        self._buffer.copy_(torch.cat((self._buffer[1:], data[None])))
        self._num_pushes += 1

    buffer, __getitem__ = ShiftingBuffer.buffer, ShiftingBuffer.__getitem__


def test_a_planted_error_is_refused_with_its_line(tmp_path: Path):
    env = DelayedTargets()
    ready = mjlab_substitutes()[0]
    env.context_manager().add_substitute(
        exploy.substitute(
            CircularBuffer,
            ForgetsToFill,
            from_original=in_order_of_time,
            to_original=as_ring,
            random_call=ready.random_call,
        )
    )
    warm(env, 3)
    before = state_of(env)
    with pytest.raises(SubstituteError, match=r"ForgetsToFill does not do what .*CircularBuffer does") as raised:
        exploy.export(env, make_actor(6), tmp_path / "policy.onnx", strict=False)
    assert str(raised.value).startswith(f"{__file__}:{ForgetsToFill.append.__code__.co_firstlineno} (in append): ")
    assert state_of(env) == before and not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(2,), (2, 3), (5, 2, 2)])
@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("frames", [1, 4, 11])
def test_buffers_of_all_lengths_and_shapes_are_equal(shape: tuple[int, ...], length: int, frames: int):
    buffer = CircularBuffer(length, shape[0], "cpu")
    generator = torch.Generator().manual_seed(0)
    for _ in range(frames):
        buffer.append(torch.randn(shape, generator=generator))
    item = mjlab_substitutes()[0]
    calls = [WatchedCall(item, "append", functions_of(item)["append"], (buffer, torch.ones(shape)), {})]
    assert try_substitute(item, calls).largest_error == 0.0


def test_the_agreement_holds_where_the_file_alone_is_fed(tmp_path: Path):
    assert_agrees(with_substitutes(DelayedTargets()), make_actor(6), tmp_path)
