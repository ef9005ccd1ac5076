"""The demo environment can be exported, and the file balances the pole."""

from pathlib import Path

from exploy.demo.cart_pole import CartPole
from exploy.demo.closed_loop import balance
from exploy.demo.exportable import ExportableCartPole
from exploy.demo.policy import CartPoleActor, load_trained_actor
from exploy.exporter.core.exporter import export_environment_as_onnx
from tests.support.environments import assert_agrees


def test_a_batch_of_cart_poles_agrees_over_resets(tmp_path: Path):
    env = ExportableCartPole(CartPole(batch_size=3, seed=2, episode_steps=40))
    assert_agrees(env, load_trained_actor(), tmp_path)


def test_an_untrained_policy_lets_the_pole_fall(tmp_path: Path):
    path = export_environment_as_onnx(ExportableCartPole(CartPole()), CartPoleActor(), tmp_path)
    assert not balance(path, seconds=5.0, seed=3).stood
