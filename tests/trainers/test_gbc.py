"""export_policy_as_onnx: transformer and recurrent policies with their normalisers, equal to torch."""

import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from rsl_rl.modules import EmpiricalNormalization

from exploy.errors import CheckpointError, LoweringError, OutputPathError, PolicyError, VerificationError
from exploy.exporter.frameworks import gbc
from exploy.exporter.policy import export_policy_as_onnx
from exploy.runtime import Controller
from tests.support.gbc import (
    ACTIONS,
    REF_WIDTH,
    TERMS,
    WIDTH,
    ActorCritic,
    ElementEmbedding,
    Embedding,
    RecurrentActorCritic,
    TermEmbedding,
    Transformer,
)
from tests.support.policies import assert_agrees

SIZE = 16


def normalizer(width: int) -> EmpiricalNormalization:
    """A normaliser that still updates its statistics."""
    module = EmpiricalNormalization(width)
    for _ in range(5):
        module.update(3.0 + 2.0 * torch.randn(64, width))
    return module.train()


def transformer(form: str) -> ActorCritic:
    torch.manual_seed(0)
    reference = Embedding(REF_WIDTH, SIZE, 3)
    actors = {
        "standard": lambda: Transformer(Embedding(WIDTH, SIZE, 4), None, SIZE),
        "reference": lambda: Transformer(Embedding(WIDTH, SIZE, 4), reference, SIZE),
        "pooling": lambda: Transformer(Embedding(WIDTH, SIZE, 4, deep=False), reference, SIZE, pooling=True),
        "terms": lambda: Transformer(TermEmbedding(TERMS, SIZE), TermEmbedding({"a": 4, "b": 3}, SIZE), SIZE),
        "elements": lambda: Transformer(ElementEmbedding(WIDTH, SIZE), None, SIZE),
    }
    return ActorCritic(actors[form]()).train()


def observations(with_reference: bool, count: int = 1_000) -> Iterator[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    for step in range(count):
        values: dict[str, Any] = {"obs": 3.0 + 2.0 * rng.standard_normal((1, WIDTH)).astype(np.float32)}
        if with_reference:
            values["ref_obs"] = rng.standard_normal((1, REF_WIDTH)).astype(np.float32)
            values["ref_mask"] = np.array([step % 3 != 0])
        yield values


def infer(model: Any, norm: Any = None, ref_norm: Any = None) -> Any:
    """The torch result of a copy of the policy in evaluation mode."""
    model, norm, ref_norm = (None if item is None else copy.deepcopy(item).eval() for item in (model, norm, ref_norm))

    @torch.no_grad()
    def run(values: dict[str, np.ndarray]) -> np.ndarray:
        obs = torch.from_numpy(values["obs"])
        arguments = [obs if norm is None else norm(obs)]
        if "ref_obs" in values:
            ref = torch.from_numpy(values["ref_obs"])
            arguments.append((ref if ref_norm is None else ref_norm(ref), torch.from_numpy(values["ref_mask"])))
        return model.act_inference(*arguments).numpy()

    run.model = model  # type: ignore[attr-defined]
    return run


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["standard", "reference", "pooling", "terms", "elements"])
def test_a_transformer_policy_computes_what_torch_does(form: str, tmp_path: Path) -> None:
    """With and without a reference, with the mask true and false, padding and pooling, and dropout disabled."""
    model, norm = transformer(form), normalizer(WIDTH)
    has_reference = model.actor.ref_obs_embedding is not None
    ref_norm = normalizer(REF_WIDTH) if has_reference else None
    export_policy_as_onnx(model, tmp_path, norm, ref_normalizer=ref_norm)
    controller = Controller.load(tmp_path / "policy.onnx")
    assert list(controller.inputs) == ["obs", "ref_obs", "ref_mask"][: 3 if has_reference else 1]
    assert list(controller.outputs) == ["actions"] and controller.contract.memories == ()
    steps = assert_agrees(tmp_path / "policy.onnx", infer(model, norm, ref_norm), observations(has_reference))
    assert steps == 1_000


def test_the_mask_matters(tmp_path: Path) -> None:
    model = transformer("reference")
    export_policy_as_onnx(model, tmp_path)
    controller = Controller.load(tmp_path / "policy.onnx")
    values = next(observations(True))
    with_reference, without = (
        controller.step(values | {"ref_mask": np.array([flag])})["actions"] for flag in (True, False)
    )
    assert np.abs(with_reference - without).max() > 1e-3
    other = controller.step(values | {"ref_mask": np.array([False]), "ref_obs": values["ref_obs"] + 1.0})["actions"]
    np.testing.assert_array_equal(other, without)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_recurrent_policy_keeps_its_state_as_memories(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, norm = RecurrentActorCritic(kind).train(), normalizer(WIDTH)
    export_policy_as_onnx(model, tmp_path, norm)
    path = tmp_path / "policy.onnx"
    reference = infer(model, norm)

    def reset() -> None:
        reference.model.memory_a.hidden_states = None

    assert_agrees(path, reference, observations(False), resets=(0, 100, 101, 200), reset=reset)
    session = onnxruntime.InferenceSession(path)
    states = ["h", "c"] if kind == "lstm" else ["h"]
    assert [item.name for item in session.get_inputs()] == ["obs", *(f"{name}_in" for name in states)]
    assert [item.name for item in session.get_outputs()] == ["actions", *(f"{name}_out" for name in states)]
    assert session.get_inputs()[1].shape == [2, 1, 16]
    memories = Controller.load(path).contract.memories
    assert [(item.input, item.output) for item in memories] == [(f"{name}_in", f"{name}_out") for name in states]


def test_the_opset_is_the_documented_one_or_the_one_asked_for(tmp_path: Path) -> None:
    def opset(name: str, model: Any, **options: Any) -> int:
        export_policy_as_onnx(model, tmp_path, filename=name, **options)
        proto = onnx.load(tmp_path / name)
        onnx.checker.check_model(proto, full_check=True)
        return proto.opset_import[0].version

    assert opset("a.onnx", transformer("terms")) == 14
    assert opset("b.onnx", RecurrentActorCritic("lstm")) == 11
    assert opset("c.onnx", transformer("pooling"), opset_version=11) == 11
    assert opset("d.onnx", RecurrentActorCritic("gru"), opset_version=17) == 17
    with pytest.raises(LoweringError, match="Opset 9 was requested, but 11 is the oldest"):
        opset("f.onnx", transformer("standard"), opset_version=9)
    with pytest.raises(LoweringError, match="must be a version that onnx supports, such as 14, got '11'"):
        opset("f.onnx", transformer("standard"), opset_version="11")
    assert not (tmp_path / "f.onnx").exists()


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["reference", "lstm"])
def test_the_number_of_robots_can_stay_open(form: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model: Any = RecurrentActorCritic("lstm") if form == "lstm" else transformer(form)
    export_policy_as_onnx(model, tmp_path, dynamic_batch=True)
    controller = Controller.load(tmp_path / "policy.onnx", sizes={"batch": 7})
    reference = infer(model)
    for _ in range(20):
        draws = list(observations(form != "lstm", 7))
        values = {name: np.concatenate([draw[name] for draw in draws]) for name in draws[0]}
        np.testing.assert_allclose(controller.step(values)["actions"], reference(values), rtol=1e-5, atol=1e-5)


def test_model_and_normaliser_stay_as_they_are(tmp_path: Path) -> None:
    model, norm = transformer("reference"), normalizer(WIDTH)
    model.act_inference(torch.randn(2, WIDTH), (torch.randn(2, REF_WIDTH), torch.tensor([True, False])))
    hidden = model.actor.last_hidden_state  # has gradients, so copy.deepcopy() raises
    before = copy.deepcopy((model.state_dict(), norm.state_dict()))
    export_policy_as_onnx(model, tmp_path, norm)
    assert model.training and norm.training and all(part.training for part in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert model.actor.last_hidden_state is hidden
    for state, now in zip(before, (model.state_dict(), norm.state_dict()), strict=True):
        assert all(torch.equal(state[name], now[name]) for name in state)


def test_the_documented_way_to_run_it_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "new" / "models")
    export_policy_as_onnx(transformer("standard"), folder, normalizer(WIDTH), "robot.onnx", True)
    session = onnxruntime.InferenceSession(f"{folder}/robot.onnx")
    actions = session.run(None, {"obs": np.zeros((1, WIDTH), np.float32)})[0]
    assert actions.shape == (1, ACTIONS)
    assert "robot.onnx" in capsys.readouterr().out
    assert [item.name for item in Path(folder).iterdir()] == ["robot.onnx"]


class Forgetful(torch.nn.Module):
    """Keeps the last observation in a Python attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.obs_embedding = Embedding(WIDTH, SIZE, 1)
        self.ref_obs_embedding = None
        self.last: torch.Tensor | float = 0.0

    def forward(self, obs: torch.Tensor, reference: None) -> torch.Tensor:
        out, self.last = obs[:, :ACTIONS] + self.last, obs[:, :ACTIONS]
        return out


class Squashing(ActorCritic):
    """Applies an additional function after the actor."""

    def act_inference(self, obs: torch.Tensor, reference: Any = None) -> torch.Tensor:
        return torch.tanh(super().act_inference(obs, reference))


def without_rnn() -> Any:
    model = RecurrentActorCritic("lstm")
    del model.memory_a.rnn
    return model


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (lambda: torch.nn.Linear(3, 3), {}, "has no actor: looked for `actor`"),
        (lambda: ActorCritic(torch.nn.Linear(3, 3)), {}, "looked for `obs_embedding`"),
        (lambda: Squashing(transformer("standard").actor), {}, r"act_inference\(\) of Squashing returns other actions"),
        (without_rnn, {}, "looked for `memory_a.rnn`"),
        (lambda: transformer("standard"), {"normalizer": normalizer(5)}, r"shape \(5,\).*'obs'.*shape \(12,\)"),
        (lambda: transformer("reference"), {"ref_normalizer": normalizer(5)}, r"shape \(5,\).*'ref_obs'.*\(7,\)"),
        (lambda: transformer("standard"), {"ref_normalizer": normalizer(7)}, "reads no reference observations"),
        (lambda: transformer("standard"), {"normalizer": lambda obs: obs}, "must be a torch.nn.Module, got function"),
    ],
)
def test_what_cannot_be_exported_is_refused(model: Any, options: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=message):
        export_policy_as_onnx(model(), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_state_in_python_is_found(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"'actions'.*Python state"):
        export_policy_as_onnx(ActorCritic(Forgetful()), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_path_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputPathError, match="is a file"):
        export_policy_as_onnx(transformer("standard"), tmp_path / "file")
    with pytest.raises(OutputPathError, match="plain name"):
        export_policy_as_onnx(transformer("standard"), tmp_path, filename="a/b.onnx")


@functools.cache
def checkpoint_parts() -> tuple[ActorCritic, EmpiricalNormalization]:
    return transformer("standard"), normalizer(WIDTH)


def test_a_checkpoint_needs_the_network_that_it_is_of(tmp_path: Path) -> None:
    model, norm = checkpoint_parts()
    path = tmp_path / "model.pt"
    torch.save({"model_state_dict": model.state_dict(), "obs_norm_state_dict": norm.state_dict(), "iter": 3}, path)
    with pytest.raises(CheckpointError, match=r"Missing: model= .*; normalizer= \(its statistics"):
        gbc.actor_from_checkpoint(path)
    torch.manual_seed(7)
    fresh = ActorCritic(Transformer(Embedding(WIDTH, SIZE, 4), None, SIZE))
    actor = gbc.actor_from_checkpoint(path, model=fresh, normalizer=EmpiricalNormalization(WIDTH))
    values = next(observations(False))
    with torch.no_grad():
        np.testing.assert_allclose(actor(torch.from_numpy(values["obs"])), infer(model, norm)(values), atol=1e-6)
    with pytest.raises(CheckpointError, match="does not match the model"):
        gbc.actor_from_checkpoint(path, model=transformer("reference"), normalizer=EmpiricalNormalization(WIDTH))
    torch.save({"actor": {}}, path)
    with pytest.raises(CheckpointError, match="looked for 'model_state_dict', found actor"):
        gbc.actor_from_checkpoint(path, model=fresh)
    with pytest.raises(CheckpointError, match="Checkpoint not found"):
        gbc.actor_from_checkpoint(tmp_path / "none.pt", model=fresh)


def test_one_call_exports_it_with_todays_opset(tmp_path: Path) -> None:
    names = [f"obs_{index}" for index in range(WIDTH)]
    path = gbc.export_policy(transformer("standard"), tmp_path / "policy.onnx", obs_names=names, rate_hz=50)
    contract = Controller.load(path).contract
    assert contract.provenance.opset == 20
    assert (contract.hz, contract.observation_names) == (50.0, tuple(names))
