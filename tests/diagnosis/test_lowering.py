"""A check also converts the environment to ONNX: what has no form there is a finding, with the line of the user."""

from pathlib import Path

import pytest
import torch

import exploy
from exploy.backends.onnx.backend import OnnxBackend
from exploy.diagnosis.finding import FindingKind
from exploy.errors import LoweringError
from tests.diagnosis.test_faults import Robot
from tests.support.environments import make_actor


class Decomposition(Robot):
    def observe(self):
        return torch.linalg.qr(super().observe().reshape(2, 2))[0].reshape(1, 4)


class BesselActions(Robot):
    def process_actions(self, actions):
        self.targets[:] = torch.special.i0e(actions)


class SamplesOfLegs(Robot):
    """A normalization of the environment that nobody put into evaluation mode, as rl_games' running means are."""

    def setup(self):
        self.normalizer = torch.nn.BatchNorm1d(4)

    def observe(self):
        frames = super().observe()
        return self.normalizer(torch.cat([frames, 2 * frames + 1]))[:1]


class TrainedNormalizer(SamplesOfLegs):
    """The same in evaluation mode."""

    def prepare_export(self):
        super().prepare_export()
        self.normalizer.eval()


WITHOUT_FORM = {
    Decomposition: ("env", "observe", "aten.linalg_qr.default"),
    BesselActions: ("env", "process_actions", "bessel_i0e"),
    SamplesOfLegs: ("env.normalizer", "observe", "training mode"),
}


@pytest.mark.matrix
@pytest.mark.parametrize("kind", WITHOUT_FORM)
def test_what_has_no_form_in_a_file_is_a_finding_with_the_line(kind):
    tensor, function, what = WITHOUT_FORM[kind]
    (finding,) = exploy.check_environment(kind(), make_actor(4)).errors
    assert (finding.kind, finding.tensor) == (FindingKind.CANNOT_LOWER, tensor)
    assert "test_lowering.py:" in finding.where and finding.where.endswith(f"(in {function})")
    assert what in finding.what and finding.suggestion.startswith("# ")


def test_normalization_in_evaluation_mode_has_a_form():
    diagnosis = exploy.check_environment(TrainedNormalizer(), make_actor(4))
    assert diagnosis.ok, diagnosis


def test_lowering_can_be_left_out():
    assert exploy.check_environment(Decomposition(), make_actor(4), lower=False).ok


def test_a_strict_export_lowers_once(monkeypatch, tmp_path: Path):
    lower, calls = OnnxBackend.lower, []

    def counted(backend, program, decimation):
        calls.append(program)
        return lower(backend, program, decimation)

    monkeypatch.setattr(OnnxBackend, "lower", counted)
    exploy.export(Robot(), make_actor(4), tmp_path / "policy.onnx")
    assert len(calls) == 1
    with pytest.raises(LoweringError, match="observe"):
        exploy.export(Decomposition(), make_actor(4), tmp_path / "policy.onnx")
