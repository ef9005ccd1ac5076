"""The exported file: names, paths, metadata, weights, and what happens when it cannot be made."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from exploy.backends.onnx import file as onnx_file
from exploy.errors import (
    ActorError,
    AliasError,
    CaptureError,
    ComponentError,
    ExployError,
    InvalidEnvironmentError,
    LoweringError,
    MetadataError,
    OutputPathError,
    UnusedInputWarning,
)
from exploy.exporter.core.components import Group, Input, Memory, Output
from exploy.exporter.core.exporter import ExportMode, OnnxEnvironmentExporter, export_environment_as_onnx
from exploy.exporter.core.tensor_proxy import TensorProxy
from tests.support.environments import TestEnvironment, assert_agrees, export, make_actor


class Simple(TestEnvironment):
    """One Input, one Output, the previous actions as Memory."""

    num_observations = 4

    def __init__(self, decimation: int = 4):
        super().__init__(decimation)
        self.value = torch.tensor([[0.5, -0.5]])
        self.actions = torch.zeros(1, 2)
        manager = self.context_manager()
        manager.add_component(Input("value", lambda: self.value, metadata={"unit": "rad", "limits": [-0.1, 1e-7]}))
        manager.add_component(Output("targets", lambda: self.targets, metadata=["left", "right"]))
        manager.add_component(Memory("actions", lambda: self.actions))

    def observe(self):
        return torch.cat([self.value, self.actions], dim=-1)

    def process_actions(self, actions):
        self.actions[:] = actions
        self.targets[:] = 2 * actions

    def move(self):
        self.value += self.noise(self.value)


def load(folder: Path, name: str = "policy.onnx") -> onnx.ModelProto:
    model = onnx.load(folder / name)
    onnx.checker.check_model(model, full_check=True)
    return model


def metadata(folder: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in load(folder).metadata_props}


# -- the file ------------------------------------------------------------


def test_ports_have_the_documented_names(tmp_path: Path):
    export(Simple(), make_actor(4), tmp_path)
    graph = load(tmp_path).graph
    carried = "memory.env_targets"
    inputs = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output]
    assert inputs == ["ctx.step_count", "value", "memory.actions.in", f"{carried}.in"]
    assert outputs == ["actions", "obs", "targets", "memory.actions.out", f"{carried}.out"]
    assert graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.INT32
    assert not graph.input[0].type.tensor_type.shape.dim


def test_default_versions_and_a_choice_of_others(tmp_path: Path):
    export(Simple(), make_actor(4), tmp_path)
    model = load(tmp_path)
    assert (model.opset_import[0].version, model.ir_version) == (20, 11)
    export(Simple(), make_actor(4), tmp_path, opset_version=18, ir_version=9)
    model = load(tmp_path)
    assert (model.opset_import[0].version, model.ir_version) == (18, 9)


def test_an_opset_that_cannot_be_reached_is_an_error(tmp_path: Path):
    with pytest.raises(LoweringError, match="opset"):
        export(Simple(), make_actor(4), tmp_path, opset_version=99)
    assert not list(tmp_path.iterdir())


def test_step_count_chooses_the_path_and_sub_steps_hold_targets(tmp_path: Path):
    session = export(Simple(decimation=3), make_actor(4), tmp_path)
    values: dict[str, Any] = {
        "value": np.array([[1, 2]], np.float32),
        "memory.actions.in": np.zeros((1, 2), np.float32),
    }
    carried = np.array([[7, 8]], np.float32)
    for step_count in range(7):
        session(**values, **{"memory.env_targets.in": carried, "ctx.step_count": np.array(step_count, np.int32)})
        targets, actions = session.get_output_value("targets"), session.get_output_value("actions")
        if step_count % 3 == 0:
            assert actions.any() and np.allclose(targets, 2 * actions)
        else:
            assert not actions.any() and not session.get_output_value("obs").any()
            assert np.array_equal(targets, carried)


def test_debug_graphs_show_the_two_paths(tmp_path: Path):
    export(Simple(), make_actor(4), tmp_path)
    default, sub_step = (load(tmp_path / "debug", f"policy_{name}.onnx") for name in ("default", "process_actions"))
    assert [value.name for value in default.graph.output][:3] == ["actions", "obs", "targets"]
    assert "Gemm" in {node.op_type for node in default.graph.node}
    assert next(value.name for value in sub_step.graph.output) == "targets"
    assert "Gemm" not in {node.op_type for node in sub_step.graph.node}
    assert not sub_step.graph.initializer


def test_weights_are_stored_once_under_their_own_names_and_inside_the_file(tmp_path: Path):
    actor = torch.nn.Sequential(torch.nn.Linear(4, 700), torch.nn.ELU(), torch.nn.Linear(700, 2))
    export(Simple(), actor, tmp_path)
    stored = {item.name: item for item in load(tmp_path).graph.initializer}
    for name, value in actor.named_parameters():
        assert np.array_equal(onnx.numpy_helper.to_array(stored[f"actor.{name}"]), value.detach().numpy())
    weights = sum(value.numel() * 4 for value in actor.parameters())
    assert (tmp_path / "policy.onnx").stat().st_size < weights + 6000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["debug", "policy.onnx"]


def test_metadata_has_the_documented_keys_at_full_precision(tmp_path: Path):
    class Described(Simple):
        def metadata(self):
            return {"env_name": "Described", "sim_dt": 0.005, "joints": ["a", "b"]}

    env = Described()
    env.context_manager().add_group(Group("group", [], metadata={"description": "nothing"}))
    export(env, make_actor(4), tmp_path, model_source={"run": "wandb/1"})
    found = metadata(tmp_path)
    assert found["env_name"] == "Described"
    assert found["sim_dt"] == "0.005" and json.loads(found["joints"]) == ["a", "b"]
    assert json.loads(found["model_source"]) == {"run": "wandb/1"}
    assert json.loads(found["value"]) == {"unit": "rad", "limits": [-0.1, 1e-7]}
    assert json.loads(found["targets"]) == ["left", "right"]
    assert json.loads(found["group"]) == {"description": "nothing"}
    assert json.loads(found["exploy_version"]) and found["decimation"] == "4"
    assert json.loads(found["exploy.contract"])["decimation"] == 4


class Timed(Simple):
    """An environment with some keys in its metadata."""

    def __init__(self, **keys):
        super().__init__()
        self.keys = keys

    def metadata(self):
        return {"env_name": "Timed", **self.keys}


@pytest.mark.parametrize("sim_dt", [0.005, "0.005", np.float64(0.005)])
def test_the_update_rate_follows_from_the_simulation_step(sim_dt, tmp_path: Path):
    export(Timed(sim_dt=sim_dt), make_actor(4), tmp_path)
    found = metadata(tmp_path)
    assert (found["sim_dt"], found["update_rate"]) == ("0.005", "200.0")
    assert json.loads(found["update_rate"]) == 200


@pytest.mark.parametrize(("given", "stored"), [(100, "100"), ("50", "50"), ("as fast as it can", "as fast as it can")])
def test_an_update_rate_that_the_environment_gives_is_kept(given, stored, tmp_path: Path):
    export(Timed(sim_dt=0.005, update_rate=given), make_actor(4), tmp_path)
    assert metadata(tmp_path)["update_rate"] == stored


@pytest.mark.matrix(3)
@pytest.mark.parametrize(
    "keys", [{}, *({"sim_dt": value} for value in (0, "0", -0.005, "fast", True, [0.005], 5e-324))]
)
def test_no_update_rate_follows_from_a_simulation_step_that_makes_no_sense(keys, tmp_path: Path):
    export(Timed(**keys), make_actor(4), tmp_path)
    assert "update_rate" not in metadata(tmp_path)


def test_a_component_may_be_named_update_rate(tmp_path: Path):
    env = Timed(sim_dt=0.005)
    env.context_manager().add_group(Group("update_rate", [], metadata={"unit": "Hz"}))
    export(env, make_actor(4), tmp_path)
    assert json.loads(metadata(tmp_path)["update_rate"]) == {"unit": "Hz"}


def test_the_file_tells_nothing_of_the_machine_that_made_it(tmp_path: Path):
    export(Simple(), make_actor(4), tmp_path)
    for path in tmp_path.rglob("*.onnx"):
        assert str(Path(__file__).parent).encode() not in path.read_bytes()
        assert b"site-packages" not in path.read_bytes()


def test_the_summary_lists_the_ports(tmp_path: Path, capsys):
    export(Simple(), make_actor(4), tmp_path, verbose=True)
    assert "memory.actions.in" in capsys.readouterr().out


def test_nothing_is_printed_otherwise(tmp_path: Path, capfd):
    export(Simple(), make_actor(4), tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("filename", ["policy_v1.2", "policy_v1.2.onnx"])
def test_a_name_with_dots_is_kept(filename, tmp_path: Path):
    path = export_environment_as_onnx(Simple(), make_actor(4), tmp_path, filename)
    assert path == tmp_path / "policy_v1.2.onnx" and path.is_file()
    assert (tmp_path / "debug" / "policy_v1.2_default.onnx").is_file()


def test_component_names_never_clash_with_the_files_own(tmp_path: Path):
    names = [
        "zero",
        "cond",
        "decimation",
        "add",
        "constant_0",
        "val_0",
        "_",
        "__zero",
        "default",
        "default/node_add",
        "linear",
    ]

    class Named(Simple):
        def __init__(self):
            super().__init__()
            self.extras = {name: torch.ones(1, 2) for name in names}
            self.memories = {name: torch.zeros(1, 2) for name in names}
            for name in names:
                self.context_manager().add_component(Input(name, partial(self.extras.__getitem__, name)))
                self.context_manager().add_component(Memory(f"{name}.memory", partial(self.memory, name)))

        def memory(self, name):
            return self.memories[name]

        def observe(self):
            return super().observe() + torch.stack([*self.extras.values(), *self.memories.values()]).sum()

        def process_actions(self, actions):
            self.memories = {name: 0.5 * self.memories[name] + 0.1 * self.actions for name in names}
            super().process_actions(actions)

    assert_agrees(Named(), make_actor(4), tmp_path, steps=5)


def test_unused_inputs_are_left_out_and_said(tmp_path: Path):
    env = Simple()
    env.context_manager().add_component(Input("spare", lambda: torch.ones(3)))
    with pytest.warns(UnusedInputWarning, match="spare"):
        session = export(env, make_actor(4), tmp_path)
    assert "spare" not in session.input_names
    session(**{name: np.zeros((1, 2), np.float32) for name in session.input_names if name != "ctx.step_count"}, spare=1,
            **{"ctx.step_count": np.array(0, np.int32)})  # fmt: skip


def test_a_split_tensor_traces_to_separate_inputs(tmp_path: Path):
    class Bodies(Simple):
        num_observations = 3

        def __init__(self):
            super().__init__()
            self.bodies = TensorProxy(torch.randn(1, 3, 3, generator=torch.Generator().manual_seed(0)), split_dim=1)
            for index in range(3):
                self.context_manager().add_component(Input(f"body_{index}", self.body(index)))

        def body(self, index):
            return lambda: self.bodies[:, index]

        def observe(self):
            return self.bodies[:, 0] + self.bodies[:, 2]

    with pytest.warns(UnusedInputWarning, match="body_1"):
        session = export(Bodies(), make_actor(3), tmp_path)
    assert {"body_0", "body_2"} <= set(session.input_names)


def test_state_held_by_modules_and_the_environment_is_told_apart(tmp_path: Path):
    class WithModule(Simple):
        def __init__(self):
            super().__init__()
            torch.manual_seed(1)
            self.encoder = torch.nn.Linear(4, 4)
            self.scale = torch.tensor(2.0)
            self.context_manager().add_module(self.encoder)

        def observe(self):
            return self.encoder(super().observe()) * self.scale

    env = WithModule()
    session = assert_agrees(env, make_actor(4), tmp_path, steps=5)
    assert session.contract is not None
    assert [item.name for item in session.contract.frozen] == ["env.scale"]
    assert "env.encoder.weight" not in {item.name for item in load(tmp_path).graph.initializer}
    assert "module_0.weight" in {item.name for item in load(tmp_path).graph.initializer}


# -- the exporter as an object ------------------------------------------------------------


def test_export_modes_are_as_documented():
    assert (ExportMode.Default.value, ExportMode.ProcessActions.value) == (0, 1)


def test_the_exporter_is_a_module_that_computes_the_captured_pipeline():
    env, actor = Simple(), make_actor(4)
    exporter = OnnxEnvironmentExporter(env, actor, opset_version=20, ir_version=11)
    value = torch.tensor([[3.0, 4.0]])
    actions, observations, targets, memory, _ = exporter({"value": value, "memory.actions.in": torch.ones(1, 2)})
    assert torch.equal(observations, torch.tensor([[3.0, 4.0, 1.0, 1.0]]))
    assert torch.allclose(actions, actor(observations)) and torch.equal(targets, 2 * actions)
    assert torch.equal(memory, actions)
    assert torch.equal(env.value, torch.tensor([[0.5, -0.5]]))
    held, *_ = exporter(
        {"value": value, "memory.env_targets.in": 5 * torch.ones(1, 2), "ctx.step_count": torch.tensor(1)}
    )
    assert torch.equal(held, 5 * torch.ones(1, 2))


def test_modules_are_registered_once_in_order():
    env = Simple()
    modules = [torch.nn.Linear(1, 1), torch.nn.Linear(2, 2)]
    for module in modules:
        env.context_manager().add_module(module)
    exporter = OnnxEnvironmentExporter(env, make_actor(4), 20, 11)
    exporter.register_modules()
    assert [name for name, _ in exporter.named_children()] == ["actor", "module_0", "module_1"]


# -- what goes wrong ------------------------------------------------------------


class Unsupported(Simple):
    def observe(self):
        return torch.special.i0e(super().observe())


class WrongObservations(Simple):
    def observe(self):
        return self.value


class NoObservations(Simple):
    def observe(self):
        return [self.value]


class ZeroDecimation(Simple):
    decimation = 0


class GrowingMemory(Simple):
    def process_actions(self, actions):
        self.targets[:] = actions
        self.actions = torch.cat([self.actions, actions])

    def observe(self):
        return torch.cat([self.value, self.actions[:1]], dim=-1)


def with_input(callback: Any) -> Simple:
    env = Simple()
    env.context_manager().add_component(Input("other", callback or (lambda: env.value[:, :1])))
    return env


class NamesAsText(Simple):
    def get_observation_names(self):
        return "abcd"


class NoMetadata(Simple):
    def metadata(self):
        return None


class NumberedMetadata(Simple):
    def metadata(self):
        return {1: "one"}


class UnstorableMetadata(Simple):
    def metadata(self):
        return {"key": "\ud800"}


class NoEmptyActions(Simple):
    def empty_actions(self):
        return None


class WithoutSuper(Simple):
    def __init__(self):
        pass


class BadMetadata(Simple):
    def metadata(self):
        return {"limit": float("nan")}


class OtherDecimation(Simple):
    def metadata(self):
        return {"decimation": "8"}


class ClashingMetadata(Simple):
    def metadata(self):
        return {"value": "1"}


FAILURES: dict[str, tuple[Any, Any, type[ExployError], str]] = {
    "an operator without ONNX form": (
        Unsupported,
        4,
        LoweringError,
        r"/test_environment_export.py:\d+ .*i0e.* has",
    ),
    "observations of another shape": (
        WrongObservations,
        4,
        InvalidEnvironmentError,
        r"shape \(1, 4\).*got shape \(1, 2\)",
    ),
    "observations that are no tensor": (NoObservations, 4, InvalidEnvironmentError, "got list"),
    "an actor for other observations": (Simple, 5, ActorError, r"failed on observations of shape \(1, 4\)"),
    "an actor with other actions": (Simple, (4, 3), ActorError, r"shape \(1, 2\).*got shape \(1, 3\)"),
    "a decimation of zero": (ZeroDecimation, 4, InvalidEnvironmentError, "got 0"),
    "a memory that grows": (GrowingMemory, 4, ComponentError, r"shape \(1, 2\).* before .*shape \(2, 2\)"),
    "a callback without tensor": (lambda: with_input(lambda: 3.0), 4, ComponentError, "'other'.*got float"),
    "overlapping inputs": (lambda: with_input(None), 4, AliasError, "'value' and 'other' share memory"),
    "an expanded input": (lambda: with_input(lambda: torch.ones(1).expand(3)), 4, AliasError, "'other' is an expanded"),
    "names that are a text": (NamesAsText, 4, InvalidEnvironmentError, "list of strings, got 'abcd'"),
    "no metadata": (NoMetadata, 4, InvalidEnvironmentError, "dictionary with strings as keys, got None"),
    "metadata under numbers": (NumberedMetadata, 4, InvalidEnvironmentError, "strings as keys"),
    "metadata beyond UTF-8": (UnstorableMetadata, 4, MetadataError, "cannot be stored as UTF-8"),
    "no empty actions": (
        NoEmptyActions,
        4,
        InvalidEnvironmentError,
        r"empty_actions\(\) must return a torch.Tensor",
    ),
    "no call of super": (WithoutSuper, 4, InvalidEnvironmentError, r"must call super\(\).__init__\(\)"),
    "half-length floats": (
        lambda: with_input(lambda: torch.ones(1, dtype=torch.bfloat16)),
        4,
        ComponentError,
        "bfloat16",
    ),
    "metadata that JSON cannot hold": (BadMetadata, 4, MetadataError, "limit.*cannot be stored as JSON"),
    "another decimation in the metadata": (OtherDecimation, 4, MetadataError, "decimation = 8.*the file has 4"),
    "a key used twice": (ClashingMetadata, 4, MetadataError, "'value' is both"),
}


@pytest.mark.parametrize(("make", "sizes", "kind", "message"), FAILURES.values(), ids=FAILURES.keys())
def test_misuse_is_explained_and_leaves_files_alone(make, sizes, kind, message, tmp_path: Path):
    old = tmp_path / "policy.onnx"
    old.write_text("an older file")
    actor = make_actor(*sizes) if isinstance(sizes, tuple) else make_actor(sizes)
    with pytest.raises(kind, match=message):
        export_environment_as_onnx(make(), actor, tmp_path)
    assert old.read_text() == "an older file"
    assert list(tmp_path.iterdir()) == [old]


def test_component_metadata_that_json_cannot_hold_is_named(tmp_path: Path):
    env = Simple()
    env.context_manager().add_component(Memory("extra", lambda: env.targets))
    env.context_manager().add_group(Group("gains", [], metadata={"stiffness": torch.ones(2)}))
    with pytest.raises(MetadataError, match=r"'gains'.*tolist"):
        export(env, make_actor(4), tmp_path)


def test_an_actor_with_lazy_parameters_is_refused(tmp_path: Path):
    actor = torch.nn.Sequential(torch.nn.LazyLinear(8), torch.nn.Linear(8, 2))
    with pytest.raises(ActorError, match=r"0\.weight.*not initialized"):
        export_environment_as_onnx(Simple(), actor, tmp_path)


def test_an_actor_that_is_no_module_is_refused(tmp_path: Path):
    with pytest.raises(ActorError, match="got function"):
        export_environment_as_onnx(Simple(), lambda obs: obs, tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "folder/policy.onnx", None])
def test_a_filename_must_be_a_plain_name(name, tmp_path: Path):
    with pytest.raises(OutputPathError, match="plain name"):
        export_environment_as_onnx(Simple(), make_actor(4), tmp_path, name)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputPathError, match="is a file"):
        export_environment_as_onnx(Simple(), make_actor(4), tmp_path / "taken")
    with pytest.raises(OutputPathError, match="Cannot write"):
        export_environment_as_onnx(Simple(), make_actor(4), tmp_path / "taken" / "below")


def test_a_target_that_is_a_folder_is_refused(tmp_path: Path):
    (tmp_path / "policy.onnx").mkdir()
    with pytest.raises(OutputPathError, match="folder"):
        export_environment_as_onnx(Simple(), make_actor(4), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == []


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a file system that nobody may write to")
def test_a_folder_that_cannot_be_written_to_is_refused():
    with pytest.raises(OutputPathError, match="Cannot write"):
        export_environment_as_onnx(Simple(), make_actor(4), "/proc/exploy")


def test_a_model_beyond_the_limit_of_onnx_is_refused(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(onnx_file, "MAX_BYTES", 1000)
    with pytest.raises(LoweringError, match="at most 2 GiB"):
        export_environment_as_onnx(Simple(), make_actor(4), tmp_path)
    assert not list(tmp_path.iterdir())


def test_initial_memory_must_name_a_memory_and_fit(tmp_path: Path):
    with pytest.raises(ComponentError, match=r"'value'.*Registered memories: actions"):
        export(Simple(), make_actor(4), tmp_path, initial_memory={"value": torch.zeros(1, 2)})
    with pytest.raises(ComponentError, match=r"shape \(1, 2\).*got shape \(3,\)"):
        export(Simple(), make_actor(4), tmp_path, initial_memory={"actions": torch.zeros(3)})


def test_an_exported_file_needs_nothing_but_onnxruntime(tmp_path: Path):
    export(Simple(), make_actor(4), tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    assert session.get_modelmeta().custom_metadata_map["env_name"] == "Simple"


def test_sharing_one_memory_as_two_types_is_refused(tmp_path: Path):
    class Reinterpreting(Simple):
        def __init__(self):
            super().__init__()
            self.bits = self.value.view(torch.int32)

        def observe(self):
            return super().observe() + self.bits.sum()

    with pytest.raises((AliasError, CaptureError), match=r"float32.*int32|int32.*float32"):
        export(Reinterpreting(), make_actor(4), tmp_path)


def test_a_path_may_start_at_home(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert export_environment_as_onnx(Simple(), make_actor(4), "~/policies") == tmp_path / "policies" / "policy.onnx"


def test_a_numpy_integer_is_a_whole_number(tmp_path: Path):
    session = export(Simple(decimation=np.int64(4)), make_actor(4), tmp_path)  # type: ignore[arg-type]
    assert session.contract is not None and session.contract.decimation == 4


def test_only_the_part_of_a_buffer_that_no_port_covers_is_frozen(tmp_path: Path):
    class Partly(Simple):
        def __init__(self):
            super().__init__()
            self.buffer = torch.arange(4.0)[None]
            self.context_manager().add_component(Input("part", lambda: self.buffer[:, 1:3]))

        def observe(self):
            return self.buffer + super().observe()

    session = assert_agrees(Partly(), make_actor(4), tmp_path, steps=5)
    assert session.contract is not None
    (frozen,) = session.contract.frozen
    assert (frozen.name, frozen.shape, frozen.elements) == ("env.buffer", (1, 4), [0, 3])
    assert frozen.changed_elements(np.array([[0, 9, 9, 3]], np.float32)) is None
    changed = frozen.changed_elements(np.array([[5, 1, 2, 3]], np.float32))
    assert changed is not None and changed.tolist() == [True, False, False, True]
