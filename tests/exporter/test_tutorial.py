"""The exporter tutorial, run as printed."""

import pathlib

import pytest
import torch

from exploy.exporter.core.actor import add_actor_memory
from exploy.exporter.core.context_manager import Input, Memory, Output
from exploy.exporter.core.evaluator import evaluate
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.core.session_wrapper import SessionWrapper
from tests.support.tutorial import (
    Actor,
    DataSource,
    Environment,
    EnvironmentWithTorchModule,
    ExportableEnv,
    RNNActor,
    export_and_evaluate,
)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_basic_environment():
    data_source = DataSource()
    env = Environment(data_source=data_source)
    exp_env = ExportableEnv(env=env)
    actor = Actor(num_obs=env.num_obs, num_act=env.num_act).eval()

    assert export_and_evaluate(exp_env, actor, "policy.onnx", num_eval_steps=20)


def test_environment_with_a_torch_module():
    data_source = DataSource()
    env = EnvironmentWithTorchModule(data_source=data_source)
    exp_env = ExportableEnv(env=env)
    actor = Actor(num_obs=env.num_obs, num_act=env.num_act).eval()
    exp_env.context_manager().add_module(env.module)

    assert export_and_evaluate(exp_env, actor, "policy_with_module.onnx", num_eval_steps=20)


def test_environment_with_a_torch_module_and_an_rnn_actor():
    data_source = DataSource()
    env = EnvironmentWithTorchModule(data_source=data_source)
    exp_env = ExportableEnv(env=env)
    exp_env.context_manager().add_module(env.module)

    actor = RNNActor(num_obs=env.num_obs, num_act=env.num_act).eval()
    actor(exp_env.empty_actor_observations())
    add_actor_memory(
        context_manager=exp_env.context_manager(),
        get_hidden_states_func=actor.get_state,
    )

    assert export_and_evaluate(exp_env, actor, "policy_with_rnn.onnx", num_eval_steps=20)


def test_steps_3_to_7_leave_two_tensors_out_and_evaluation_names_them(tmp_path: pathlib.Path, capsys):
    data_source = DataSource()
    env = Environment(data_source=data_source)
    exp_env = ExportableEnv(env=env)

    exp_env.context_manager().add_components(
        [
            # foo is an input: it feeds into compute_observations() from the data source.
            Input(
                name="foo",
                get_from_env_cb=lambda: exp_env.env.data_source.foo,
                metadata={"description": "The foo tensor from the data source."},
            ),
            # out is an output: it carries the result of apply_actions() back to the caller.
            Output(
                name="out",
                get_from_env_cb=lambda: exp_env.env._output,
                metadata={"description": "The output tensor computed from the actions."},
            ),
            # actions is memory: it is used inside compute_observations() and must persist
            # across inference calls because the observation includes the previous actions.
            Memory(
                name="actions",
                get_from_env_cb=lambda: exp_env.env._actions,
            ),
        ]
    )
    actor = Actor(num_obs=env.num_obs, num_act=env.num_act).eval()

    export_path = tmp_path
    onnx_file_name = "policy.onnx"

    export_environment_as_onnx(
        env=exp_env,
        actor=actor,
        path=export_path,
        filename=onnx_file_name,
        verbose=False,
    )

    session_wrapper = SessionWrapper(
        onnx_folder=export_path,
        onnx_file_name=onnx_file_name,
        actor=actor,
        optimize=True,
    )

    with torch.inference_mode():
        export_ok, observations = evaluate(
            env=exp_env,
            context_manager=exp_env.context_manager(),
            session_wrapper=session_wrapper,
            num_steps=20,
            verbose=True,
            pause_on_failure=False,
        )

    assert not export_ok
    assert observations.shape == (1, 10)
    report = capsys.readouterr().out
    assert "env._env._data_source.bar is frozen" in report
    assert "env._env._data_source.baz is frozen" in report
