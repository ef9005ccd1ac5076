"""A file computes what torch computes, at corner values too; what it cannot compute is refused with the line."""

from pathlib import Path

import pytest
import torch

import exploy
from exploy.driver.policy_export import export_policy
from exploy.errors import LoweringError
from exploy.policy.policy import BATCH, Policy, PolicyInput, Tensors
from exploy.runtime.onnx.session import open_session
from tests.support.environments import make_actor
from tests.support.operator_cases import Case, cases
from tests.support.operator_runs import REFUSED, RIGHT, Calling, run_all

ALL = cases()
REFUSED_OPERATORS = {
    "digamma", "erfinv", "i0", "lgamma", "rrelu", "nextafter", "mode(dim=-1)", "pinv", "svd", "eigvalsh", "qr",
    "lstsq", "matrix_exp", "erf float64",
    "gelu float64", "lstm float64", "gru float64", "conv2d float64",
}  # fmt: skip
OF_USERS = {  # as in legged_gym, mjlab and others
    "clip int and float", "clamp max", "copysign", "atan2", "remainder of a number", "hypot", "sign", "clamp int64",
    "min of two int16", "max(dim) int16", "median(dim=-1)", "amax(-1) with NaN", "searchsorted", "cdist",
    "scatter_reduce mean", "solve", "inverse with a zero pivot", "cholesky", "index by int32", "x[i] = v by int32",
    "index by a 0-d tensor", "eps beside a norm", "to float64", "elu float64",
}  # fmt: skip
GROUPS = list(dict.fromkeys(case.group for case in ALL))


def assert_right_or_refused(chosen: list[Case]) -> None:
    found = dict(zip([case.name for case in chosen], run_all(chosen), strict=True))
    refused = {name for name, outcome in found.items() if outcome.verdict == REFUSED}
    wrong = {name: outcome.detail for name, outcome in found.items() if outcome.verdict not in (RIGHT, REFUSED)}
    assert not wrong
    assert refused == REFUSED_OPERATORS & set(found)


def test_what_environments_are_full_of_is_right() -> None:
    chosen = [case for case in ALL if case.name in OF_USERS]
    assert {case.name for case in chosen} == OF_USERS
    assert_right_or_refused(chosen)


@pytest.mark.expensive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", GROUPS)
def test_all_operators_are_right_or_refused(group: str) -> None:
    assert_right_or_refused([case for case in ALL if case.group == group])


def test_a_type_that_onnxruntime_does_not_compute_is_refused_with_the_line(tmp_path: Path) -> None:
    def erf_of_doubles(x: torch.Tensor) -> torch.Tensor:
        return torch.erf(x.double())

    env = Calling([Case("", "erf", erf_of_doubles, (torch.ones(3),))])
    with pytest.raises(LoweringError, match=r"test_operators.py:\d+ \(in erf_of_doubles\).* Erf of float64"):
        exploy.export(env, make_actor(2), tmp_path / "policy.onnx", strict=False)


def test_two_numbers_that_float32_takes_for_one_are_refused_in_float64(tmp_path: Path) -> None:
    env = Calling([Case("", "", lambda x: x.double() * 0.1 + 0.10000000001, (torch.ones(3),))])
    with pytest.raises(LoweringError, match=r"0\.1 and 0\.10000000001 are the same in float32"):
        exploy.export(env, make_actor(2), tmp_path / "policy.onnx", strict=False)


class Corners(Policy):
    """A policy for any number of robots that uses operators with a form of our own."""

    def __init__(self) -> None:
        super().__init__([PolicyInput("obs", (BATCH, 4))])

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        (x,) = inputs
        largest, place = x.max(dim=-1, keepdim=True)
        spread = torch.sort(x, dim=-1, descending=True).values.cumprod(-1)
        inverse = torch.linalg.inv(torch.diag_embed(x) + 1)
        x = x.clone()
        x[:, :2].copy_(x[:, 2:3])
        parts = [torch.atan2(x, x.flip(-1)), largest * place, spread, inverse.sum(-1), x + x.argmax()]
        return (torch.cat(parts, -1),), ()


def test_forms_work_for_any_number_of_robots(tmp_path: Path) -> None:
    path = export_policy(Corners(), tmp_path / "policy.onnx", dynamic_batch=True)
    session = open_session(path.read_bytes(), threads=1, spinning=False)
    for batch in (1, 2, 5):
        x = torch.randn(batch, 4, generator=torch.Generator().manual_seed(batch))
        expected = Corners().step((x,), ())[0][0]
        torch.testing.assert_close(torch.from_numpy(session.run(None, {"obs": x.numpy()})[0]), expected)
