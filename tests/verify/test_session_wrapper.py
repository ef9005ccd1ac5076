"""SessionWrapper: running an exported file, and refusing what does not fit it."""

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from exploy.contract import METADATA_KEY, Contract
from exploy.errors import FileFormatError, RuntimeInputError, UnusedInputWarning
from exploy.exporter.core.context_manager import Group, Input, Memory, Output
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.exporter.core.session_wrapper import SessionWrapper
from tests.support.tutorial import Actor, DataSource, Environment, ExportableEnv


class Exported(NamedTuple):
    """The tutorial's environment with an Input that nobody reads, and its file."""

    path: Path
    env: ExportableEnv
    actor: Actor


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    torch.manual_seed(0)
    env = Environment(DataSource())
    exportable = ExportableEnv(env)
    manager = exportable.context_manager()
    manager.add_components(
        [
            Input("foo", lambda: env.data_source.foo),
            Input("battery", lambda: torch.ones(1, 1)),
            Output("out", lambda: env._output),
            Memory("actions", lambda: env._actions),
        ]
    )
    data = env.data_source
    manager.add_group(Group("group", [Input("bar", lambda: data.bar), Input("baz", lambda: data.baz)]))
    actor = Actor(env.num_obs, env.num_act).eval()
    folder = tmp_path_factory.mktemp("exported")
    with pytest.warns(UnusedInputWarning, match="battery"):
        path = export_environment_as_onnx(exportable, actor, folder, "policy_v1.2.onnx")
    return Exported(path, exportable, actor)


@pytest.fixture
def folder(exported: Exported, tmp_path: Path) -> Path:
    """A folder with policy.onnx and nothing else."""
    shutil.copyfile(exported.path, tmp_path / "policy.onnx")
    return tmp_path


@pytest.fixture
def session(folder: Path) -> SessionWrapper:
    return SessionWrapper(folder, "policy.onnx", optimize=False)


def inputs(session: SessionWrapper, step_count: int = 0, **changes: Any) -> dict[str, Any]:
    """Values for all inputs: those that the memories start from, and numbers for the rest."""
    assert session.contract is not None
    rng = np.random.default_rng(0)
    values: dict[str, Any] = {
        port.name: rng.normal(size=port.fixed_shape()).astype(port.dtype) for port in session.contract.inputs
    }
    values |= {memory.input: memory.initial_value() for memory in session.contract.memories}
    return values | {"ctx.step_count": np.array(step_count, dtype=np.int32)} | changes


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# -- opening --------------------------------------------------------------------------------------------------


def test_the_file_the_actor_and_the_contract_can_be_had_back(exported: Exported, folder: Path) -> None:
    session = SessionWrapper(folder, "policy.onnx", actor=exported.actor, optimize=False)
    assert session.onnx_file_path == folder / "policy.onnx"
    assert session.get_actor() is exported.actor
    assert session.contract is not None
    assert session.contract.decimation == 4


def test_no_actor_is_needed(session: SessionWrapper) -> None:
    assert session.get_actor() is None
    assert session(**inputs(session))


def test_the_folder_may_be_a_string(folder: Path) -> None:
    assert SessionWrapper(str(folder), "policy.onnx", optimize=False).onnx_file_path == folder / "policy.onnx"


def test_the_names_are_those_of_the_registered_components(session: SessionWrapper) -> None:
    assert {"ctx.step_count", "foo", "group.bar", "group.baz", "memory.actions.in"} <= set(session.input_names)
    assert {"actions", "obs", "out", "memory.actions.out"} <= set(session.output_names)


def test_optimising_writes_the_optimised_graph_beside_the_file(folder: Path) -> None:
    SessionWrapper(folder, "policy.onnx", optimize=True)
    assert files(folder) == ["debug", "debug/policy_optimized.onnx", "policy.onnx"]


def test_optimising_is_the_default(folder: Path) -> None:
    SessionWrapper(folder, "policy.onnx")
    assert (folder / "debug" / "policy_optimized.onnx").is_file()


def test_without_optimising_nothing_is_written(folder: Path) -> None:
    session = SessionWrapper(folder, "policy.onnx", optimize=False)
    session(**inputs(session))
    session.reset()
    assert files(folder) == ["policy.onnx"]


def test_opening_does_not_change_the_file(exported: Exported, folder: Path) -> None:
    SessionWrapper(folder, "policy.onnx", optimize=True)
    assert (folder / "policy.onnx").read_bytes() == exported.path.read_bytes()


def test_an_optimised_graph_computes_the_same(folder: Path, session: SessionWrapper) -> None:
    optimized = SessionWrapper(folder, "policy.onnx", optimize=True)
    written = SessionWrapper(folder / "debug", "policy_optimized.onnx", optimize=False)
    for step_count in range(5):
        values = inputs(session, step_count)
        for other in (optimized, written):
            assert other.output_names == session.output_names
            for expected, got in zip(session(**values), other(**values), strict=True):
                np.testing.assert_allclose(got, expected, atol=1e-6, rtol=1e-6)


def test_an_optimised_graph_has_fewer_nodes_than_one_that_is_not(folder: Path) -> None:
    SessionWrapper(folder, "policy.onnx", optimize=True)
    plain, optimized = (onnx.load(folder / name) for name in ("policy.onnx", "debug/policy_optimized.onnx"))
    assert count_nodes(optimized.graph) < count_nodes(plain.graph)


def count_nodes(graph: onnx.GraphProto) -> int:
    inner = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return len(graph.node) + sum(count_nodes(item) for item in inner)


def test_an_older_optimised_graph_is_replaced(folder: Path) -> None:
    (folder / "debug").mkdir()
    (folder / "debug" / "policy_optimized.onnx").write_text("old")
    plain = SessionWrapper(folder, "policy.onnx", optimize=True)
    optimized = SessionWrapper(folder / "debug", "policy_optimized.onnx", optimize=False)
    assert optimized.output_names == plain.output_names


def test_a_file_in_the_way_of_the_debug_folder_is_no_reason_to_fail(folder: Path) -> None:
    (folder / "debug").write_text("mine")
    session = SessionWrapper(folder, "policy.onnx", optimize=True)
    assert session(**inputs(session))
    assert (folder / "debug").read_text() == "mine"
    assert files(folder) == ["debug", "policy.onnx"]


def test_a_folder_in_the_way_of_the_optimised_graph_is_no_reason_to_fail(folder: Path) -> None:
    (folder / "debug" / "policy_optimized.onnx").mkdir(parents=True)
    session = SessionWrapper(folder, "policy.onnx", optimize=True)
    assert session(**inputs(session))


def test_a_name_with_a_dot_in_it_keeps_all_its_parts(exported: Exported) -> None:
    assert exported.path.name == "policy_v1.2.onnx"
    session = SessionWrapper(exported.path.parent, "policy_v1.2.onnx", optimize=True)
    assert session(**inputs(session))
    assert (exported.path.parent / "debug" / "policy_v1.2_optimized.onnx").is_file()


# -- files that cannot be used --------------------------------------------------------------------------------


def test_a_missing_file_is_named(folder: Path) -> None:
    with pytest.raises(FileFormatError, match=r"File not found: .*other\.onnx"):
        SessionWrapper(folder, "other.onnx")
    with pytest.raises(FileFormatError, match=r"File not found: .*nowhere"):
        SessionWrapper(folder / "nowhere", "policy.onnx")
    assert files(folder) == ["policy.onnx"]


def test_a_folder_is_no_file(folder: Path) -> None:
    with pytest.raises(FileFormatError, match="File not found"):
        SessionWrapper(folder.parent, folder.name)


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("content", [b"", b"This is a text file.\n", b"\x00" * 64])
def test_what_is_no_onnx_file_is_refused_by_name(tmp_path: Path, content: bytes, optimize: bool) -> None:
    (tmp_path / "notes.onnx").write_bytes(content)
    with pytest.raises(FileFormatError, match=r"notes\.onnx is not an ONNX file"):
        SessionWrapper(tmp_path, "notes.onnx", optimize=optimize)


def test_half_a_file_is_refused(folder: Path) -> None:
    data = (folder / "policy.onnx").read_bytes()
    (folder / "policy.onnx").write_bytes(data[: len(data) // 2])
    with pytest.raises(FileFormatError, match=r"policy\.onnx is not an ONNX file, or is truncated"):
        SessionWrapper(folder, "policy.onnx", optimize=False)


def set_contract(path: Path, text: str) -> None:
    model = onnx.load(path)
    (entry,) = (item for item in model.metadata_props if item.key == METADATA_KEY)
    entry.value = text
    onnx.save(model, path)


def test_a_file_of_a_newer_format_is_refused_with_its_version(folder: Path, session: SessionWrapper) -> None:
    contract = session.contract
    assert isinstance(contract, Contract)
    newer = contract.to_json().replace(f'"format_version":"{contract.format_version}"', '"format_version":"77.5"')
    set_contract(folder / "policy.onnx", newer)
    with pytest.raises(FileFormatError, match=r"77\.5"):
        SessionWrapper(folder, "policy.onnx", optimize=False)


def test_a_file_with_a_broken_contract_is_refused(folder: Path) -> None:
    set_contract(folder / "policy.onnx", "{")
    with pytest.raises(FileFormatError, match=METADATA_KEY):
        SessionWrapper(folder, "policy.onnx", optimize=False)


def test_a_file_that_exploy_did_not_make_runs_without_a_contract(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [2]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negate", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, tmp_path / "foreign.onnx")
    session = SessionWrapper(tmp_path, "foreign.onnx", optimize=False)
    assert session.contract is None
    assert [value.tolist() for value in session(x=np.array([1, -2]))] == [[-1, 2]]
    with pytest.raises(RuntimeInputError, match="Unknown: z"):
        session(x=np.array([1, -2]), z=0)


# -- running --------------------------------------------------------------------------------------------------


def test_a_run_computes_what_environment_and_actor_compute(exported: Exported, session: SessionWrapper) -> None:
    foo, bar, baz = torch.tensor([[1.0, -2.0, 3.0, 0.5]]), torch.tensor([[0.1, 0.2]]), torch.tensor([[-1.0, 4.0]])
    previous = torch.tensor([[0.3, -0.4]])
    given = {"foo": foo, "group.bar": bar, "group.baz": baz, "memory.actions.in": previous}
    session(**inputs(session) | given)
    obs = torch.cat([foo + 1.0, bar + 2.0 * baz, baz, previous], dim=-1)
    actions = exported.actor(obs).detach()
    np.testing.assert_allclose(session.get_output_value("obs"), obs, atol=1e-6)
    np.testing.assert_allclose(session.get_output_value("actions"), actions, atol=1e-6)
    np.testing.assert_allclose(session.get_output_value("memory.actions.out"), actions, atol=1e-6)
    np.testing.assert_allclose(session.get_output_value("out"), 3 * actions + 2, atol=1e-5)


def test_a_run_returns_all_outputs_in_the_order_of_the_file(session: SessionWrapper) -> None:
    results = session(**inputs(session))
    assert len(results) == len(session.output_names)
    for name, value in zip(session.output_names, results, strict=True):
        np.testing.assert_array_equal(session.get_output_value(name), value)


def test_the_order_of_the_arguments_does_not_matter(session: SessionWrapper) -> None:
    values = inputs(session)
    backwards = dict(reversed(values.items()))
    for expected, got in zip(session(**values), session(**backwards), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_torch_tensors_are_taken_like_arrays(session: SessionWrapper) -> None:
    values = inputs(session)
    tensors = {name: torch.from_numpy(value) for name, value in values.items()}
    for expected, got in zip(session(**values), session(**tensors), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_tensors_that_need_gradients_and_views_are_taken_too(session: SessionWrapper) -> None:
    expected = session(**inputs(session, foo=np.array([[0.0, 2.0, 4.0, 6.0]], dtype=np.float32)))
    every_second = torch.arange(8.0, requires_grad=True)[None, ::2]
    reversed_view = np.array([[6.0, 4.0, 2.0, 0.0]], dtype=np.float32)[:, ::-1]
    for foo in (every_second, reversed_view):
        for value, reference in zip(session(**inputs(session, foo=foo)), expected, strict=True):
            np.testing.assert_array_equal(value, reference)


def test_a_run_does_not_change_its_inputs(session: SessionWrapper) -> None:
    values = inputs(session)
    before = {name: value.copy() for name, value in values.items()}
    session(**values)
    for name, value in values.items():
        np.testing.assert_array_equal(value, before[name])


def test_an_input_that_was_left_out_of_the_file_is_taken_and_ignored(session: SessionWrapper) -> None:
    assert "battery" not in session.input_names
    expected = session(**inputs(session))
    for value, reference in zip(session(**inputs(session, battery=np.ones((1, 1)))), expected, strict=True):
        np.testing.assert_array_equal(value, reference)


# -- refused inputs -------------------------------------------------------------------------------------------


def test_unknown_inputs_are_named(session: SessionWrapper) -> None:
    with pytest.raises(RuntimeInputError, match=r"policy\.onnx takes .*foo.*Unknown: speed, fooo\.$") as caught:
        session(**inputs(session, speed=1.0, fooo=2.0))
    assert "Missing" not in str(caught.value)


def test_missing_inputs_are_named(session: SessionWrapper) -> None:
    values = inputs(session)
    del values["foo"], values["group.baz"]
    with pytest.raises(RuntimeInputError, match=r"Missing: foo, group\.baz\.$") as caught:
        session(**values)
    assert "Unknown" not in str(caught.value)


def test_missing_and_unknown_inputs_are_named_together(session: SessionWrapper) -> None:
    values = inputs(session)
    values["bar"] = values.pop("group.bar")
    with pytest.raises(RuntimeInputError, match=r"Missing: group\.bar\. Unknown: bar\."):
        session(**values)


def test_a_run_without_inputs_names_all(session: SessionWrapper) -> None:
    with pytest.raises(RuntimeInputError) as caught:
        session()
    assert all(name in str(caught.value).partition("Missing")[2] for name in session.input_names)


@pytest.mark.parametrize("shape", [(4,), (1, 3), (2, 4), (1, 1, 4), (), (0, 4), (4, 1)])
def test_a_wrong_shape_is_refused_and_not_broadcast(session: SessionWrapper, shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeInputError, match=r"'foo' must have shape \(1, 4\)") as caught:
        session(**inputs(session, foo=np.zeros(shape, dtype=np.float32)))
    assert f"got shape {shape}" in str(caught.value)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "bool", ">f4"])
def test_a_wrong_type_is_refused_and_not_converted(session: SessionWrapper, dtype: str) -> None:
    with pytest.raises(RuntimeInputError, match=r"'foo' must have .* type float32, got .* type") as caught:
        session(**inputs(session, foo=np.zeros((1, 4), dtype=dtype)))
    assert str(caught.value).endswith(f"type {np.dtype(dtype)}.")


@pytest.mark.parametrize("foo", [None, "text", [[1.0, 2.0, 3.0, 4.0]], torch.zeros(1, 4, dtype=torch.float64)])
def test_what_is_no_array_of_the_right_type_is_refused_by_name(session: SessionWrapper, foo: Any) -> None:
    with pytest.raises(RuntimeInputError, match="'foo'"):
        session(**inputs(session, foo=foo))


def test_the_step_count_must_be_a_scalar(session: SessionWrapper) -> None:
    with pytest.raises(RuntimeInputError, match=r"'ctx\.step_count' must have shape \(\)"):
        session(**inputs(session) | {"ctx.step_count": np.zeros(1, dtype=np.int32)})


def test_a_refused_run_leaves_the_results_of_the_last_one(session: SessionWrapper) -> None:
    session(**inputs(session))
    before = session.get_output_value("actions").copy()
    with pytest.raises(RuntimeInputError):
        session(**inputs(session, foo=None))
    np.testing.assert_array_equal(session.get_output_value("actions"), before)


# -- results --------------------------------------------------------------------------------------------------


def test_before_the_first_run_every_output_is_zero(session: SessionWrapper) -> None:
    assert session.contract is not None
    for port in session.contract.outputs:
        expected = np.zeros(port.fixed_shape(), dtype=port.dtype)
        np.testing.assert_array_equal(session.get_output_value(port.name), expected, strict=True)


def test_after_a_reset_every_output_is_zero_again(session: SessionWrapper) -> None:
    session(**inputs(session))
    assert session.get_output_value("out").any()
    session.reset()
    for name in session.output_names:
        assert not session.get_output_value(name).any()


@pytest.mark.parametrize("name", ["", "action", "foo", "memory.actions.in", "battery"])
def test_an_unknown_output_is_a_key_error_that_tells_the_known_ones(session: SessionWrapper, name: str) -> None:
    for _ in range(2):
        with pytest.raises(KeyError, match=r"no output .*actions.*obs"):
            session.get_output_value(name)
        session(**inputs(session))


def test_a_reset_does_not_touch_arrays_handed_out_before(session: SessionWrapper) -> None:
    results = session(**inputs(session))
    results.append(session.get_output_value("actions"))
    before = [value.copy() for value in results]
    session.reset()
    for value, kept in zip(results, before, strict=True):
        np.testing.assert_array_equal(value, kept)


def test_a_reset_does_not_touch_memories_that_the_caller_feeds_back(session: SessionWrapper) -> None:
    session(**inputs(session))
    memory = session.get_output_value("memory.actions.out")
    kept = memory.copy()
    session.reset()
    session(**inputs(session) | {"memory.actions.in": memory})
    np.testing.assert_array_equal(memory, kept)


def test_the_results_of_one_run_are_not_overwritten_by_the_next(session: SessionWrapper) -> None:
    first = [*session(**inputs(session)), session.get_output_value("out")]
    before = [value.copy() for value in first]
    second = session(**inputs(session, foo=np.full((1, 4), 9.0, dtype=np.float32)))
    for value, kept in zip(first, before, strict=True):
        np.testing.assert_array_equal(value, kept)
    index = session.output_names.index("obs")
    assert not np.array_equal(second[index], first[index])


def test_a_reset_forgets_results_but_not_how_to_run(session: SessionWrapper) -> None:
    expected = session(**inputs(session))
    session.reset()
    for value, reference in zip(session(**inputs(session)), expected, strict=True):
        np.testing.assert_array_equal(value, reference)


def test_two_sessions_of_one_file_do_not_share_results(folder: Path, session: SessionWrapper) -> None:
    other = SessionWrapper(folder, "policy.onnx", optimize=False)
    session(**inputs(session))
    assert session.get_output_value("out").any()
    assert not other.get_output_value("out").any()
