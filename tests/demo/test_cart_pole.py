from collections.abc import Callable

import pytest
import torch

from exploy.demo import dynamics
from exploy.demo.cart_pole import EPISODE_STEPS, CartPole
from exploy.demo.exportable import ExportableCartPole
from exploy.demo.policy import CartPoleActor, load_trained_actor
from tools.train_demo_policy import RolloutState, policy_step, rollout_cost, save_weights


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@torch.no_grad()
def run(env: CartPole, act: Callable[[torch.Tensor], torch.Tensor], steps: int) -> None:
    observations = env.compute_observations()
    for _ in range(steps):
        observations, _ = env.step(act(observations))


def no_action(observations: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(observations), 1)


# -- The trained policy


def test_pole_stands_and_cart_comes_to_its_command():
    env = CartPole(batch_size=20, seed=7, episode_steps=EPISODE_STEPS + 1)
    run(env, load_trained_actor(), EPISODE_STEPS)
    assert env.steps_in_episode.tolist() == [EPISODE_STEPS] * 20
    assert (env.cart[:, 0:1] - env.command).abs().max() < 0.1
    assert env.pole.abs().max() < 0.05


def test_single_environment_stands_after_the_command_changes():
    env = CartPole(seed=3)
    actor = load_trained_actor()
    env.command[:] = -1.0
    run(env, actor, 200)
    env.command[:] = 1.0
    run(env, actor, 299)
    assert env.steps_in_episode.item() == 499
    torch.testing.assert_close(env.cart[:, 0:1], env.command, atol=0.1, rtol=0.0)


def test_pole_falls_without_control():
    env = CartPole(batch_size=20, seed=7)
    run(env, no_action, 300)
    assert (env.steps_in_episode < 300).all()


def test_trained_actor_is_ready_for_use():
    actor = load_trained_actor()
    assert not actor.training
    assert actor.get_state() is None
    assert actor.observation_std.min() > 0.0


def test_weights_are_kept_by_saving(tmp_path, monkeypatch):
    saved = CartPoleActor()
    save_weights(saved, tmp_path / "cart_pole_policy.npz")
    monkeypatch.setattr("exploy.demo.policy.resources.files", lambda package: tmp_path)
    loaded = load_trained_actor()
    for name, tensor in saved.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name])


def test_missing_weights_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("exploy.demo.policy.resources.files", lambda package: tmp_path)
    with pytest.raises(FileNotFoundError, match=r"cart_pole_policy\.npz"):
        load_trained_actor()


# -- The environment


def test_seeded_resets_repeat():
    first, second, other = CartPole(4, seed=5), CartPole(4, seed=5), CartPole(4, seed=6)
    for _ in range(3):
        assert torch.equal(first.compute_observations(), second.compute_observations())
        assert not torch.equal(first.compute_observations(), other.compute_observations())
        for env in (first, second, other):
            env.reset()


def test_history_rolls_newest_first_and_keeps_raw_actions():
    env = CartPole()
    for action in (0.1, 0.2, 0.3, 5.0):
        env.process_actions(torch.tensor([[action]]))
    torch.testing.assert_close(env.action_history, torch.tensor([[5.0, 0.3, 0.2]]))
    torch.testing.assert_close(env.compute_observations()[:, 5:], env.action_history)
    assert env.target_force.item() == 10.0


def test_actuator_lags_and_reads_the_fresh_velocity():
    env = CartPole()
    env.cart[:] = torch.tensor([[0.0, 2.0]])
    env.process_actions(torch.tensor([[0.5]]))
    env.apply_actions()
    assert env.actuator_force.item() == pytest.approx(0.3 * 5.0)
    assert env.applied_force.item() == pytest.approx(0.3 * 5.0 - 0.5 * 2.0)
    env.cart[:, 1] = -2.0
    env.apply_actions()
    assert env.actuator_force.item() == pytest.approx(1.5 + 0.3 * 3.5)
    assert env.applied_force.item() == pytest.approx(2.55 + 1.0)


def test_applied_force_is_limited():
    env = CartPole()
    env.cart[:, 1] = 100.0
    env.apply_actions()
    assert env.applied_force.item() == -10.0


def test_force_accelerates_the_cart_and_tips_the_pole_back():
    upright = torch.zeros(1, 2)
    parameters = dynamics.CartPoleParameters()
    cart, pole = dynamics.simulate(upright, upright, torch.ones(1, 1), parameters)
    # Analytical values for an upright pole at rest: F / (M - 3 m / 4), with M the total mass, and -a / (4 l / 3).
    acceleration = 1.0 / (1.1 - 0.075)
    assert cart[0, 1].item() == pytest.approx(0.005 * acceleration)
    assert pole[0, 1].item() == pytest.approx(-0.005 * acceleration / (2.0 / 3.0))
    assert cart[0, 0].item() == pytest.approx(0.005 * cart[0, 1].item())


@pytest.mark.parametrize(
    ("tensor_name", "column", "value"),
    [("pole", 0, 0.5), ("pole", 0, -0.5), ("cart", 0, 2.5), ("cart", 0, -2.5), ("pole", 1, float("nan"))],
)
def test_only_the_failed_element_is_reset(tensor_name, column, value):
    env = CartPole(batch_size=3, seed=1)
    commands = env.command.clone()
    getattr(env, tensor_name)[1, column] = value
    observations, was_reset = env.step(torch.ones(3, 1))
    assert was_reset
    assert env.steps_in_episode.tolist() == [1, 0, 1]
    assert (env.command != commands).flatten().tolist() == [False, True, False]
    assert env.action_history[:, 0].tolist() == [1.0, 0.0, 1.0]
    assert (env.actuator_force == 0.0).flatten().tolist() == [False, True, False]
    assert observations.isfinite().all()
    assert torch.equal(observations, env.compute_observations())


def test_episode_ends_after_its_last_step():
    env = CartPole(episode_steps=3)
    assert [env.step(torch.zeros(1, 1))[1] for _ in range(6)] == [False, False, True] * 2


def test_state_is_updated_in_place_and_needs_no_gradient():
    env = CartPole(episode_steps=2)
    states = (env.cart, env.pole, env.command, env.action_history, env.actuator_force, env.applied_force)
    for _ in range(3):
        env.step(torch.zeros(1, 1, requires_grad=True))
    now = (env.cart, env.pole, env.command, env.action_history, env.actuator_force, env.applied_force)
    assert all(before is after for before, after in zip(states, now, strict=True))
    assert not any(state.requires_grad for state in now)


@pytest.mark.parametrize("shape", [(1,), (2, 1), (1, 2)])
def test_actions_of_another_shape_are_refused(shape):
    with pytest.raises(RuntimeError):
        CartPole().step(torch.zeros(shape))


@pytest.mark.parametrize("arguments", [{"batch_size": 0}, {"episode_steps": 0}])
def test_empty_batches_and_episodes_are_refused(arguments):
    with pytest.raises(ValueError, match="1 or more"):
        CartPole(**arguments)


# -- Training


def rollout_state(env: CartPole) -> RolloutState:
    return RolloutState(
        cart=env.cart.clone(),
        pole=env.pole.clone(),
        command=env.command.clone(),
        action_history=env.action_history.clone(),
        actuator_force=env.actuator_force.clone(),
    )


def test_training_simulates_what_the_environment_does():
    env = CartPole(batch_size=5, seed=2)
    state = rollout_state(env)
    for step in range(20):
        actions = torch.full((5, 1), (-1.5) ** (step % 2))
        observations, was_reset = env.step(actions)
        state = policy_step(state, actions, env.parameters)
        assert not was_reset
        assert torch.equal(observations, state.observe())


def test_training_cost_has_a_gradient():
    env = CartPole(batch_size=5, seed=2)
    actor = CartPoleActor()
    rollout_cost(actor, rollout_state(env), horizon=5, parameters=env.parameters).backward()
    for parameter in actor.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


# -- The adapter


def test_observation_names_match_the_observation():
    exportable = ExportableCartPole(CartPole(batch_size=2))
    names = exportable.get_observation_names()
    observations = exportable.observations_reset()
    assert len(set(names)) == observations.shape[1] == 8
    assert exportable.empty_actor_observations().shape == observations.shape
    assert load_trained_actor()(observations).shape == exportable.empty_actions().shape


def test_components_are_the_tensors_of_the_environment():
    env = CartPole()
    context = ExportableCartPole(env).context_manager()
    assert context.get_input_names() == [
        "cart",
        "pole",
        "command",
        "memory.action_history.in",
        "memory.actuator_force.in",
    ]
    assert context.get_output_names() == [
        "force",
        "memory.action_history.out",
        "memory.actuator_force.out",
    ]
    assert context.get_inputs()["cart"] is env.cart
    assert context.get_outputs()["force"] is env.applied_force
    assert context.metadata["force"]["limits"] == [[-10.0, 10.0]]


def test_metadata_are_strings():
    exportable = ExportableCartPole(CartPole())
    assert exportable.metadata() == {"env_name": "CartPole", "sim_dt": "0.005", "policy_dt": "0.02"}
    assert exportable.decimation == 4


def test_export_starts_from_empty_memories():
    exportable = ExportableCartPole(CartPole())
    exportable.step(torch.ones(1, 1))
    exportable.prepare_export()
    assert exportable.env.action_history.abs().max() == 0.0
    assert exportable.env.actuator_force.abs().max() == 0.0


class ProtocolRecorder:
    """Records the calls of the hooks in order, with the state at each call."""

    def __init__(self, exportable: ExportableCartPole):
        self.calls: list[str] = []
        self.carts: list[torch.Tensor] = []
        self.forces: list[float] = []
        self._env = exportable.env
        exportable.register_evaluation_hooks(
            update=lambda: self._record("update"),
            reset=lambda: self._record("reset"),
            evaluate_substep=lambda substep: self._record(f"substep {substep}"),
        )

    def _record(self, call: str) -> None:
        self.calls.append(call)
        self.carts.append(self._env.cart.clone())
        self.forces.append(self._env.actuator_force.item())


SUBSTEPS = ["substep 0", "substep 1", "substep 2", "substep 3"]


def test_hooks_are_called_in_protocol_order():
    exportable = ExportableCartPole(CartPole(episode_steps=2))
    recorder = ProtocolRecorder(exportable)
    exportable.observations_reset()
    exportable.step(torch.zeros(1, 1))
    exportable.step(torch.zeros(1, 1))
    assert recorder.calls == ["update", *SUBSTEPS, "update", *SUBSTEPS, "reset", "update"]


def test_hooks_see_the_state_that_the_protocol_promises():
    exportable = ExportableCartPole(CartPole())
    env = exportable.env
    start = env.cart.clone()
    recorder = ProtocolRecorder(exportable)
    observations, _ = exportable.step(torch.ones(1, 1))
    assert torch.equal(recorder.carts[0], start)
    assert recorder.forces[0] == pytest.approx(3.0)
    assert all(not torch.equal(a, b) for a, b in zip(recorder.carts, recorder.carts[1:], strict=False))
    assert torch.equal(recorder.carts[-1], env.cart)
    assert torch.equal(observations, env.compute_observations())


def test_update_comes_before_the_observations():
    exportable = ExportableCartPole(CartPole())

    def command_half_a_metre() -> None:
        exportable.env.command[:] = exportable.env.cart[:, 0:1] - 0.5

    exportable.register_evaluation_hooks(command_half_a_metre, lambda: None, lambda substep: None)
    assert exportable.observations_reset()[0, 0].item() == pytest.approx(0.5)
    assert exportable.step(torch.zeros(1, 1))[0][0, 0].item() == pytest.approx(0.5)


def test_hooks_registered_again_replace_the_first():
    exportable = ExportableCartPole(CartPole(episode_steps=1))
    first = ProtocolRecorder(exportable)
    second = ProtocolRecorder(exportable)
    exportable.step(torch.zeros(1, 1))
    assert first.calls == []
    assert second.calls == [*SUBSTEPS, "reset", "update"]


def test_environment_steps_under_inference_mode_and_after_it():
    def states(*modes: bool) -> list[torch.Tensor]:
        env = CartPole(episode_steps=2)
        exportable = ExportableCartPole(env)
        found = []
        for mode in modes:
            with torch.inference_mode(mode):
                exportable.step(torch.ones(1, 1))
            found.append(env.cart.clone())
        assert not env.cart.is_inference() and not env.pole.is_inference()
        return found

    inside, outside = states(True, True, True, False), states(False, False, False, False)
    assert all(torch.equal(one, other) for one, other in zip(inside, outside, strict=True))
