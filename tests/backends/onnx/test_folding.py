"""What depends on weights alone is computed once, at the export: any operator of torch may be used there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from rsl_rl.modules import MLP
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from exploy.diagnosis.finding import FindingKind
from exploy.driver.policy_export import export_policy
from exploy.errors import LoweringError
from exploy.exporter.core.actor import ExportableActor, make_exportable_actor
from exploy.exporter.core.components import Memory
from exploy.policy.policy import BATCH, Policy, PolicyInput, Tensors
from tests.support.builds import BUILDS, Body, assert_found, assert_refused, assert_sound, build, name_of
from tests.support.environments import assert_agrees, make_actor
from tests.support.masked_code import Masked

Code = Callable[[Masked], torch.Tensor]


class Symmetric(nn.Module):
    """A parametrisation of one's own."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return torch.linalg.matrix_exp(weight.triu() + weight.triu(1).T)


def symmetric(layer: nn.Module) -> nn.Module:
    return parametrize.register_parametrization(layer, "weight", Symmetric())


PARAMETRISATIONS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "orthogonal": parametrizations.orthogonal,
    "weight norm": parametrizations.weight_norm,
    "spectral norm": parametrizations.spectral_norm,
    "orthogonal by householder": lambda layer: parametrizations.orthogonal(layer, orthogonal_map="householder"),
    "orthogonal by cayley": lambda layer: parametrizations.orthogonal(layer, orthogonal_map="cayley"),
    "one's own": symmetric,
}


def parametrised(change: Callable[[nn.Module], nn.Module]) -> ExportableActor:
    """A network of rsl_rl with parametrised layers."""
    torch.manual_seed(0)
    network = MLP(4, 4, [4, 4], "elu")
    for layer in network:
        if isinstance(layer, nn.Linear):
            change(layer)
    return make_exportable_actor(nn.Sequential(network, nn.Linear(4, 2)))


def nodes_of(path: Path) -> list[str]:
    """The operators of a file, with those of both steps."""
    graphs = [onnx.load(path).graph]
    for graph in graphs:
        graphs += [item.g for node in graph.node for item in node.attribute if item.g.node]
    return [node.op_type for graph in graphs for node in graph.node]


@pytest.mark.matrix
@pytest.mark.parametrize("change", PARAMETRISATIONS.values(), ids=PARAMETRISATIONS.keys())
def test_parametrised_layers_are_stored_as_weights(change: Any, tmp_path: Path):
    assert_agrees(Masked(lambda env: env.x + env.y), parametrised(change), tmp_path)
    assert set(nodes_of(tmp_path / "policy.onnx")) <= {
        "If",
        "Mod",
        "Equal",
        "Gemm",
        "MatMul",
        "Add",
        "Elu",
        "Identity",
        "Constant",
    }


def written_constant(env: Masked) -> torch.Tensor:
    """Memory that only constants are written to has a value for each read."""
    gains = torch.linalg.svd(env.weights)[0].clone()
    before = env.x @ gains
    gains[0] = 1
    gains[:, 1] *= 2
    return before + env.y @ gains


FOLDED: dict[str, Code] = {
    "written constants": written_constant,
    "an inverse": lambda env: env.x @ torch.linalg.inv(env.weights) + env.y,
    "a decomposition": lambda env: env.x @ torch.linalg.qr(env.weights)[0] + env.y * torch.linalg.svdvals(env.weights),
    "eigenvectors": lambda env: env.x @ torch.linalg.eigh(env.weights @ env.weights.T)[1] + env.y,
    "least squares": lambda env: env.x @ torch.linalg.lstsq(env.weights, torch.eye(4)).solution + env.y,
    "a result that is larger": lambda env: env.x @ torch.linalg.svd(env.weights[:, :1])[0] + env.y,
}


@pytest.mark.matrix
@pytest.mark.parametrize("code", FOLDED.values(), ids=FOLDED.keys())
def test_operators_without_a_form_may_be_used_on_constants(code: Code, tmp_path: Path):
    assert_agrees(Masked(code), make_actor(4), tmp_path)


def test_what_is_larger_than_its_sources_is_left_to_the_file(tmp_path: Path):
    """An outer product, a table of powers and a broadcast sum of small tensors."""

    class Large(Masked):
        def __init__(self, function: Code):
            super().__init__(function)
            self.row = torch.linspace(0.1, 1, 1024)

    def outer(env: Any) -> torch.Tensor:
        scale = torch.nn.functional.softplus(env.row)
        table = torch.outer(scale, env.row) + env.row[:, None]
        return env.x * (table * env.y.sum()).mean() + scale.sum()

    assert_agrees(Large(outer), make_actor(4), tmp_path)
    assert (tmp_path / "policy.onnx").stat().st_size < 100_000
    assert "Softplus" not in nodes_of(tmp_path / "policy.onnx")


class Random(Policy):
    """Adds noise that depends on weights alone, drawn into memory."""

    def __init__(self) -> None:
        super().__init__([PolicyInput("obs", (BATCH, 4))], [], is_random=True)
        self.scale = nn.Parameter(torch.ones(4))

    def step(self, inputs: Tensors, states: Tensors) -> tuple[Tensors, Tensors]:
        noise = torch.empty(4).normal_() * nn.functional.softplus(self.scale)
        return (inputs[0] + noise,), ()


def test_random_numbers_are_not_stored(tmp_path: Path):
    export_policy(Random(), tmp_path / "policy.onnx")
    assert "RandomNormal" in "".join(nodes_of(tmp_path / "policy.onnx"))


class Decoupling(Body):
    """Inverts a matrix of inertias for its observations, and filters with a memory."""

    def setup(self) -> None:
        self.inertia = torch.tensor([[2.0, 0.3], [0.3, 1.0]])
        self.filtered = torch.zeros(1, 2)

    def components(self) -> list[Any]:
        return [*super().components(), Memory("filtered", lambda: self.filtered)]

    def observe(self) -> torch.Tensor:
        values, vectors = torch.linalg.eigh(self.inertia)
        self.filtered[:] = 0.5 * self.filtered + self.vel @ torch.linalg.inv(self.inertia)
        return torch.cat([self.pos @ vectors * values.sqrt(), self.filtered], -1)

    def restart(self) -> None:
        super().restart()
        self.filtered[:] = 0


class Loaded(Decoupling):
    """The inertias change with time: they are no constants."""

    def end_step(self) -> None:
        self.inertia[0, 0] += 0.01


@pytest.mark.expensive
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_environments_of_all_builds_are_sound(kind: type[Any], tmp_path: Path):
    torch.manual_seed(0)
    assert_sound(build(kind, Decoupling), parametrised(parametrizations.orthogonal), tmp_path, steps=100)


@pytest.mark.expensive
@pytest.mark.parametrize("kind", BUILDS, ids=name_of)
def test_a_source_that_changes_is_found(kind: type[Any], tmp_path: Path):
    path = f"{BUILDS[kind]}.inertia"
    assert_found(build(kind, Loaded), make_actor(4), FindingKind.UNREGISTERED_INPUT, path)
    assert_refused(build(kind, Loaded), make_actor(4), tmp_path, path)


@torch.library.custom_op("exploy_tests::read_encoder", mutates_args=())
def read_encoder() -> torch.Tensor:
    return torch.ones(4)


read_encoder.register_fake(lambda: torch.empty(4))


def test_what_an_operator_of_somebody_else_reads_is_not_stored(tmp_path: Path):
    def measured(env: Masked) -> torch.Tensor:
        return env.x + env.y + read_encoder()

    with pytest.raises(LoweringError, match=rf"{Path(__file__).name}:\d+ \(in measured\).*read_encoder"):
        assert_agrees(Masked(measured), make_actor(4), tmp_path)


def test_an_operator_without_a_form_is_refused_with_its_line_where_it_depends_on_an_input(tmp_path: Path):
    def decomposed(env: Masked) -> torch.Tensor:
        return torch.linalg.svd(env.x @ env.weights)[0] @ env.y

    with pytest.raises(LoweringError, match=rf"{Path(__file__).name}:\d+ \(in decomposed\).*svd"):
        assert_agrees(Masked(decomposed), make_actor(4), tmp_path)
