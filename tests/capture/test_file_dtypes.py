"""Ports and weights of a dtype that files do not have, such as bfloat16, are refused with the tensor and what to do."""

from pathlib import Path

import pytest
import torch

import exploy
from exploy.errors import ExployError
from exploy.exporter.core.actor import ExportableActor
from tests.support.checking import check
from tests.support.environments import make_actor
from tests.support.pd_robots import JOINTS, PdRobot, Robot

ROBOT = Robot(1.0, "mlp")


class CoarseWeights(ExportableActor):
    message = r"forward\): actor\.network.*weight has shape .* bfloat16.*\.float\(\) or \.half\(\)"

    def __init__(self) -> None:
        super().__init__()
        self.network = make_actor(PdRobot.num_observations, JOINTS).bfloat16()

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.network(obs.bfloat16())
        return result.float()


class CoarseActions(ExportableActor):
    message = r"The result of the actor has shape \(1, 4\) bfloat16.*\.float\(\)"

    def __init__(self) -> None:
        super().__init__()
        self.network = make_actor(PdRobot.num_observations, JOINTS)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.network(obs)
        return result.bfloat16()


class CoarseInside(CoarseActions):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.network((2.0 * obs.bfloat16()).float())
        return result


class CoarseObservations(PdRobot):
    def observe(self) -> torch.Tensor:
        return super().observe().bfloat16()


@pytest.mark.parametrize("kind", [CoarseWeights, CoarseActions])
def test_an_actor_with_weights_or_actions_in_bfloat16_is_refused(kind, tmp_path: Path):
    with pytest.raises(ExployError, match=kind.message):
        exploy.export(PdRobot(ROBOT), kind(), tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [CoarseWeights, CoarseActions])
def test_the_check_says_the_same(kind):
    errors = check(PdRobot(ROBOT), kind()).errors
    assert "bfloat16" in str(errors[0]) and not any("TypeError" in str(item) for item in errors)


def test_an_actor_that_computes_in_bfloat16_exports(tmp_path: Path):
    assert exploy.export(PdRobot(ROBOT), CoarseInside(), tmp_path / "policy.onnx").path.exists()


def test_observations_in_bfloat16_are_refused(tmp_path: Path):
    with pytest.raises(ExployError, match=r"compute_observations\(\) has shape \(1, 14\) bfloat16"):
        exploy.export(CoarseObservations(ROBOT), CoarseInside(), tmp_path / "policy.onnx")
