"""Evaluation compares everything it can, says what it could not, and never says True for nothing."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from exploy.errors import FileFormatError, InvalidEnvironmentError
from exploy.exporter.core.actor import ExportableActor, add_actor_memory
from exploy.exporter.core.components import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.session_wrapper import SessionWrapper
from exploy.verify import closed_loop
from tests.support.environments import TestEnvironment, export, make_actor


class Controlled(TestEnvironment):
    """A PD law at sub-steps, an action history, and a history that observations roll."""

    num_observations = 8

    def __init__(self, reset_every: int = 37, decimation: int = 4):
        super().__init__(decimation, reset_every)
        self.position = torch.tensor([[0.1, 0.2]])
        self.torque = torch.zeros(1, 2)
        self.actions = torch.zeros(1, 2)
        self.history = torch.zeros(1, 2, 2)
        self.gain = torch.tensor(4.0)
        self.context_manager().add_components(
            [
                Input("position", lambda: self.position),
                Output("torque", lambda: self.torque),
                Output("targets", lambda: self.targets),
                Memory("actions", lambda: self.actions),
                Memory("history", lambda: self.history),
            ]
        )

    def observe(self):
        self.history = torch.roll(self.history, 1, dims=1)
        self.history[:, 0] = self.position
        return torch.cat([self.position * self.gain, self.actions, self.history.flatten(1)], dim=-1)

    def process_actions(self, actions):
        self.actions[:] = actions
        self.targets[:] = 0.5 * actions

    def apply_actions(self):
        self.torque[:] = self.gain * (self.targets - self.position)

    def move(self):
        self.position += 0.02 * self.torque + 0.1 * self.noise(self.position)

    def restart(self):
        self.position[:] = 0.3
        self.actions[:] = 0.0
        self.history[:] = 0.0


class WithoutHooks(Controlled):
    def register_evaluation_hooks(self, update, reset, evaluate_substep):
        pass


def run(env, session: SessionWrapper, num_steps: int = 20, **options) -> bool:
    options = {"verbose": False, "pause_on_failure": False, **options}
    ok, observations = evaluate(env, env.context_manager(), session, num_steps, **options)
    assert observations.shape == (1, env.num_observations)
    return ok


def rewrite(folder: Path, change) -> None:
    """Change the graph of an exported file, as a bug in an exporter would."""
    model = onnx.load(folder / "policy.onnx")
    change(model.graph)
    onnx.save(model, folder / "policy.onnx")


def scale_sub_step_gain(graph: onnx.GraphProto) -> None:
    """Make the sub-step use another gain than the policy step."""
    choice = next(node for node in graph.node if node.op_type == "If")
    branch = next(attribute.g for attribute in choice.attribute if attribute.name == "else_branch")
    multiply = next(node for node in branch.node if node.op_type == "Mul")
    multiply.op_type = "Add"


def open_again(env, actor, folder: Path) -> SessionWrapper:
    return SessionWrapper(folder, "policy.onnx", actor=actor, optimize=False)


# -- what is compared ------------------------------------------------------------


def test_with_hooks_every_sub_step_of_every_output_is_compared(tmp_path: Path, capsys):
    env, actor = Controlled(), make_actor(8)
    session = export(env, actor, tmp_path)
    assert run(env, session, 20, verbose=True)
    rows = table(capsys.readouterr().out)
    assert rows["obs"] == rows["actions"] == "20"
    assert rows["torque"] == rows["targets"] == rows["memory.actions.out"] == rows["memory.history.out"] == "80"


def test_an_error_in_a_middle_sub_step_is_found_with_hooks(tmp_path: Path, capsys):
    env, actor = Controlled(), make_actor(8)
    export(env, actor, tmp_path)
    rewrite(tmp_path, scale_sub_step_gain)
    assert not run(env, open_again(env, actor, tmp_path))
    assert "torque" in capsys.readouterr().out


def test_without_hooks_the_functions_that_step_and_stages_share_show_every_sub_step(tmp_path: Path, capsys):
    env, actor = WithoutHooks(), make_actor(8)
    session = export(env, actor, tmp_path)
    assert run(env, session, 20, verbose=True)
    rows = table(capsys.readouterr().out)
    assert rows["obs"] == rows["actions"] == "20"
    assert rows["torque"] == rows["targets"] == rows["memory.actions.out"] == rows["memory.history.out"] == "80"


def test_without_sub_steps_no_hooks_are_needed_for_outputs(tmp_path: Path, capsys):
    env, actor = WithoutHooks(decimation=1), make_actor(8)
    session = export(env, actor, tmp_path)
    assert run(env, session, 20, verbose=True)
    assert table(capsys.readouterr().out)["torque"] == "20"


@pytest.mark.parametrize("kind", [Controlled, WithoutHooks])
def test_an_environment_that_resets_at_every_step_is_compared_all_the_same(kind, tmp_path: Path, capsys):
    env, actor = kind(reset_every=1), make_actor(8)
    session = export(env, actor, tmp_path)
    assert run(env, session, 5, verbose=True)
    assert table(capsys.readouterr().out)["obs"] == "5"


@pytest.mark.parametrize("kind", [Controlled, WithoutHooks])
def test_an_error_in_an_early_episode_is_not_forgotten_in_the_last(kind, tmp_path: Path):
    class ChangesOnce(kind):
        def move(self):
            super().move()
            self.gain.fill_(5.0 if self._steps == 3 else 4.0)

    env, actor = ChangesOnce(reset_every=6), make_actor(8)
    session = export(env, actor, tmp_path)
    assert not run(env, session, 20)


def test_drift_of_a_memory_shows_although_it_is_seeded_again(tmp_path: Path, capsys):
    class Integrating(Controlled):
        def process_actions(self, actions):
            self.actions += 0.01 * actions + 0.01
            self.targets[:] = 0

    env, actor = Integrating(), make_actor(8)
    export(env, actor, tmp_path)

    def forget_a_little(graph: onnx.GraphProto) -> None:
        for initializer in graph.initializer:
            values = onnx.numpy_helper.to_array(initializer)
            if values.shape == () and np.isclose(values, 0.01):
                initializer.CopyFrom(onnx.numpy_helper.from_array(values * np.float32(1.05), initializer.name))

    rewrite(tmp_path, forget_a_little)
    assert not run(env, open_again(env, actor, tmp_path), 20, reset_from_onnx_counter_steps=1)
    assert "memory.actions.out" in capsys.readouterr().out


@pytest.mark.matrix(3)
@pytest.mark.parametrize("every", [0, None, 1, 7])
@pytest.mark.parametrize("kind", [Controlled, WithoutHooks])
def test_memories_may_be_seeded_again_as_often_as_one_likes(kind, every, tmp_path: Path):
    env, actor = kind(), make_actor(8)
    assert run(env, export(env, actor, tmp_path), 50, reset_from_onnx_counter_steps=every)


def test_without_actor_the_file_drives_the_environment(tmp_path: Path, capsys):
    env, actor = Controlled(), make_actor(8)
    export(env, actor, tmp_path)
    session = SessionWrapper(tmp_path, "policy.onnx")
    assert run(env, session, 20, verbose=True)
    report = capsys.readouterr().out
    assert table(report)["actions"] == "0" and "no actor" in report


def test_equal_nans_are_equal(tmp_path: Path):
    class Undefined(Controlled):
        def observe(self):
            return super().observe() * torch.tensor([float("nan"), *[1.0] * 7])

    env, actor = Undefined(), make_actor(8)
    torch.nn.init.zeros_(next(actor.parameters()))
    assert run(env, export(env, actor, tmp_path), 5)


class Recurrent(ExportableActor):
    def __init__(self, num_obs: int):
        super().__init__()
        torch.manual_seed(0)
        self.cell = torch.nn.GRUCell(num_obs, 2)
        self.dropout = torch.nn.Dropout(0.5)
        self.hidden = torch.zeros(1, 2)

    def forward(self, obs):
        self.hidden = self.cell(self.dropout(obs), self.hidden)
        return self.hidden * 1.0

    def reset(self, dones):
        self.hidden = torch.where(dones[:, None], 0.0, self.hidden)

    def get_state(self):
        return (self.hidden,)


@pytest.mark.parametrize("kind", [Controlled, WithoutHooks])
def test_resets_reset_the_memories_of_environment_and_actor(kind, tmp_path: Path):
    env, actor = kind(reset_every=5), Recurrent(8)
    add_actor_memory(env.context_manager(), actor.get_state)
    assert run(env, export(env, actor, tmp_path), 30, reset_from_onnx_counter_steps=0)
    assert actor.training and actor.dropout.training


# -- what it leaves alone ------------------------------------------------------------


def test_the_environment_moves_just_as_it_does_alone(tmp_path: Path):
    evaluated, alone, actor = Controlled(), Controlled(), make_actor(8)
    session = export(evaluated, actor, tmp_path)
    run(evaluated, session, 20)
    with torch.no_grad():
        observations = alone.observations_reset()
        for _ in range(20):
            observations, _ = alone.step(actor(observations))
    assert torch.equal(evaluated.position, alone.position) and torch.equal(evaluated.history, alone.history)
    assert not evaluated.position.is_inference()


def test_hooks_are_taken_back(tmp_path: Path):
    env, actor = Controlled(), make_actor(8)
    session = export(env, actor, tmp_path)
    run(env, session, 3)
    before = session.get_output_value("torque")
    env.step(torch.zeros(1, 2))
    assert session.get_output_value("torque") is before


# -- what it says ------------------------------------------------------------


def test_a_failure_is_reported_with_output_step_and_element_even_when_quiet(tmp_path: Path, capsys):
    env, actor = Controlled(), make_actor(8)
    session = export(env, actor, tmp_path)
    env.gain.fill_(5.0)
    assert not run(env, session)
    report = capsys.readouterr().out
    assert "does NOT agree" in report
    assert "env.gain is frozen in the file, but changed in the environment at step 0" in report
    assert "step 0, sub-step 0" in " ".join(report.split())
    assert "sub-step 0 (obs_" in report


def test_success_is_silent_when_quiet(tmp_path: Path, capfd):
    env, actor = Controlled(), make_actor(8)
    session = export(env, actor, tmp_path)
    capfd.readouterr()
    assert run(env, session)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_asked_where_there_is_no_terminal(tmp_path: Path, monkeypatch):
    env, actor = Controlled(), make_actor(8)
    session = export(env, actor, tmp_path)
    env.gain.fill_(5.0)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    assert not run(env, session, pause_on_failure=True)


def test_it_pauses_once_where_there_is_a_terminal(tmp_path: Path, monkeypatch):
    env, actor = Controlled(), make_actor(8)
    session = export(env, actor, tmp_path)
    env.gain.fill_(5.0)
    questions: list[str] = []
    monkeypatch.setattr("exploy.verify.evaluator.has_terminal", lambda: True)
    monkeypatch.setattr("builtins.input", questions.append)
    assert not run(env, session, pause_on_failure=True)
    assert len(questions) == 1


def test_has_terminal_is_false_in_a_test_run():
    assert not closed_loop.has_terminal()


@pytest.mark.parametrize("num_steps", [0, -1])
def test_no_steps_are_an_error(num_steps, tmp_path: Path):
    env, actor = Controlled(), make_actor(8)
    session = export(env, actor, tmp_path)
    with pytest.raises(InvalidEnvironmentError, match="num_steps of 1 or more"):
        run(env, session, num_steps)
    with pytest.raises(InvalidEnvironmentError, match="reset_from_onnx_counter_steps"):
        run(env, session, 1, reset_from_onnx_counter_steps=-1)


def test_a_file_of_another_environment_is_refused(tmp_path: Path):
    env, actor = Controlled(), make_actor(8)
    session = export(env, actor, tmp_path)
    env.context_manager().add_component(Input("more", lambda: env.gain))
    with pytest.raises(FileFormatError, match=r"only the environment has \['more'\]"):
        run(env, session)


def test_a_file_without_contract_is_refused(tmp_path: Path):
    env, actor = Controlled(), make_actor(8)
    export(env, actor, tmp_path)
    model = onnx.load(tmp_path / "policy.onnx")
    del model.metadata_props[:]
    onnx.save(model, tmp_path / "policy.onnx")
    with pytest.raises(FileFormatError, match="no contract"):
        run(env, open_again(env, actor, tmp_path))


def table(report: str) -> dict[str, str]:
    """Number of comparisons by output, from the printed table."""
    cells = [[cell.strip() for cell in line.split("│")[1:]] for line in report.splitlines() if line.startswith("│")]
    return {row[0]: row[1] for row in cells if row[0]}


@pytest.mark.parametrize("result", [None, torch.zeros(1, 8), ([0.0] * 8, False), (torch.zeros(1, 8), False, {})])
def test_a_step_that_returns_something_else_is_refused(result, tmp_path: Path):
    class Wrong(Controlled):
        def step(self, actions):
            return result

    env, actor = Wrong(), make_actor(8)
    session = export(env, actor, tmp_path)
    with pytest.raises(InvalidEnvironmentError, match=r"step\(\) must return"):
        run(env, session)


def test_flags_of_several_environments_are_taken_as_one(tmp_path: Path):
    class Flags(Controlled):
        def step(self, actions):
            observations, done = super().step(actions)
            return observations, torch.tensor([done, False])

    env, actor = Flags(reset_every=3), make_actor(8)
    assert run(env, export(env, actor, tmp_path), 10)
