"""Graphs that onnxruntime should not be given: weights elsewhere, cycles, unknown operators, endless nesting."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from exploy.contract import Contract, Port
from exploy.errors import ContractError, FileFormatError
from exploy.runtime import Controller
from exploy.runtime.model_file import ModelFile
from exploy.runtime.onnx.protobuf import encoded
from exploy.verify.session_wrapper import SessionWrapper
from tests.support.files import made_by_hand, write

CONTRACT = Contract(1, (Port("x", "float32", (1,)),), (Port("y", "float32", (1,)),), ())
Y = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])


def file_of(*nodes: onnx.NodeProto, change: Any = None, weights: Any = None) -> bytes:
    return made_by_hand(nodes, CONTRACT, weights, change)


def external(name: str = "w") -> onnx.TensorProto:
    """A tensor whose values are in another file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="../../etc/passwd")
    return tensor


def external_by_keys_only(name: str = "w") -> onnx.TensorProto:
    tensor = external(name)
    tensor.ClearField("data_location")
    return tensor


def branch(*nodes: onnx.NodeProto, **parts: Any) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "branch", [], [Y], **parts)


def choice(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """An If with the same graph in both branches."""
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    return [
        helper.make_node("Constant", [], ["c"], value=condition),
        helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph),
    ]


ADD = helper.make_node("Add", ["x", "w"], ["y"])


def in_an_initializer(tensor: onnx.TensorProto) -> bytes:
    return file_of(ADD, change=lambda model: model.graph.initializer.append(tensor))


def in_an_attribute(tensor: onnx.TensorProto) -> bytes:
    return file_of(helper.make_node("Constant", [], ["w"], value=tensor), ADD)


def in_a_subgraph(tensor: onnx.TensorProto) -> bytes:
    return file_of(*choice(branch(helper.make_node("Add", ["x", "w"], ["z"]), initializer=[tensor])))


def in_a_sparse_tensor(tensor: onnx.TensorProto) -> bytes:
    sparse = onnx.SparseTensorProto(values=tensor, dims=[1])
    sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [1], [0]))
    return file_of(ADD, change=lambda model: model.graph.sparse_initializer.append(sparse))


def in_a_sparse_attribute(tensor: onnx.TensorProto) -> bytes:
    sparse = onnx.SparseTensorProto(values=helper.make_tensor("v", 1, [1], [0.0]), indices=tensor, dims=[1])
    return file_of(helper.make_node("Constant", [], ["w"], sparse_value=sparse), ADD)


def in_a_function(tensor: onnx.TensorProto) -> bytes:
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Add", ["a", "w"], ["b"])]
    return function_file(nodes)


def function_file(nodes: list[onnx.NodeProto], domain: str = "local", imports: Any = ()) -> bytes:
    function = helper.make_function(domain, "F", ["a"], ["b"], nodes, [helper.make_opsetid("", 20), *imports])

    def change(model: onnx.ModelProto) -> None:
        model.functions.append(function)
        model.opset_import.append(helper.make_opsetid(domain, 1))

    return file_of(helper.make_node("F", ["x"], ["y"], domain=domain), change=change)


@pytest.mark.parametrize("tensor", [external, external_by_keys_only])
@pytest.mark.parametrize(
    "place",
    [in_an_initializer, in_an_attribute, in_a_subgraph, in_a_sparse_tensor, in_a_sparse_attribute, in_a_function],
)
def test_weights_outside_of_the_file_are_refused_wherever_they_are(place: Any, tensor: Any, tmp_path: Path) -> None:
    model = made_without_sealing(place, tensor())
    with pytest.raises(ContractError, match=r"outside of the file \(external_data\)"):
        ModelFile.parse(model)
    path = write(model, tmp_path)
    with pytest.raises(FileFormatError, match=r"outside of the file \(external_data\)"):
        SessionWrapper(path.parent, path.name, optimize=False)


def made_without_sealing(place: Any, tensor: onnx.TensorProto) -> bytes:
    """The bytes of a model that seal() itself would refuse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.files.seal", lambda data: data)
        return bytes(place(tensor))


# -- domains --------------------------------------------------------------------------------------------------


def with_import(domain: str) -> Any:
    return lambda model: model.opset_import.append(helper.make_opsetid(domain, 1))


def test_operators_that_exports_do_not_write_are_refused() -> None:
    strange = helper.make_node("Do", ["x"], ["y"], domain="evil.domain")
    plain = helper.make_node("Neg", ["x"], ["y"])
    inside = choice(branch(helper.make_node("Do", ["x"], ["z"], domain="evil.domain")))
    for data in (
        file_of(strange),
        file_of(plain, change=with_import("evil.domain")),
        file_of(*inside),
        function_file([helper.make_node("Do", ["a"], ["b"], domain="evil.domain")]),
        function_file([helper.make_node("Neg", ["a"], ["b"])], imports=[helper.make_opsetid("evil.domain", 1)]),
    ):
        with pytest.raises(ContractError, match=r"operators of 'evil\.domain'; only standard operators"):
            Controller.load(data)


@pytest.mark.parametrize("domain", ["ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"])
def test_only_a_session_takes_operators_of_onnxruntime_itself(domain: str, tmp_path: Path) -> None:
    """Its optimised graphs have them. Some end the process, such as an Inverse of what is not square."""
    path = write(file_of(helper.make_node("Neg", ["x"], ["y"]), change=with_import(domain)), tmp_path)
    assert SessionWrapper(path.parent, path.name, optimize=False)(x=np.ones(1, np.float32))[0] == -1
    with pytest.raises(ContractError, match=f"operators of '{domain}'"):
        Controller.load(path)


def test_a_function_does_not_open_its_domain_for_other_operators() -> None:
    inverse = helper.make_node("Inverse", ["a"], ["b"], domain="com.microsoft")
    with pytest.raises(ContractError, match=r"operators of 'com\.microsoft'"):
        Controller.load(function_file([inverse], domain="com.microsoft"))


def test_a_node_that_reads_another_file_is_refused(tmp_path: Path) -> None:
    node = helper.make_node(
        "EPContext", ["x"], ["y"], domain="com.microsoft", ep_cache_context="other.bin", embed_mode=0
    )
    path = write(file_of(node, change=with_import("com.microsoft")), tmp_path)
    with pytest.raises(FileFormatError, match="'EPContext', which reads another file"):
        SessionWrapper(path.parent, path.name, optimize=False)


def test_functions_of_the_file_are_run() -> None:
    assert Controller.load(function_file([helper.make_node("Neg", ["a"], ["b"])])).step({"x": [2.0]})["y"] == -2


# -- cycles and duplicates ------------------------------------------------------------------------------------


def chain(*pairs: str) -> list[onnx.NodeProto]:
    return [helper.make_node("Identity", [pair[0]], [pair[1]]) for pair in pairs]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (chain("yy"), "a node 'Identity' reads the value 'y', which nothing before it computes"),
        (chain("ab", "ba", "xy"), "reads the value 'a'"),
        (chain("ab", "bc", "ca", "cy"), "reads the value 'a'"),
        (chain("ay", "xa"), "reads the value 'a'"),
        (chain("xy", "xy"), "The value 'y' in the graph of .* is computed twice"),
        (chain("xx", "xy"), "The value 'x' in the graph of .* is computed twice"),
        (chain("xa"), "a graph returns the value 'y'"),
        (choice(branch(*chain("zz"))), "reads the value 'z'"),
        (choice(branch(*chain("yz"))), "reads the value 'y'"),
    ],
)
def test_a_graph_with_a_cycle_or_two_producers_is_refused(nodes: list[onnx.NodeProto], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        Controller.load(file_of(*nodes))


def test_a_memory_of_a_two_rate_file_that_goes_in_circles_is_refused() -> None:
    """The branches of an If, as exports write them; an Identity that reads itself made the loader hang."""
    from tests.fuzz.cases import sealed_again
    from tests.support.files import robot_file

    model = onnx.load_from_string(robot_file())
    (then, _) = (item.g for item in model.graph.node[-1].attribute)
    node = next(node for node in then.node if node.op_type == "Identity")
    node.input[0] = node.output[0]
    with pytest.raises(ContractError, match="perhaps the graph has a cycle"):
        Controller.load(sealed_again(model.SerializeToString()))


def test_a_function_that_calls_itself_and_functions_that_multiply_are_refused() -> None:
    with pytest.raises(ContractError, match=r"function 'F' of .* calls itself"):
        Controller.load(function_file([helper.make_node("F", ["a"], ["b"], domain="local")], imports=[local()]))
    with pytest.raises(ContractError, match="more than 500000 operators"):
        Controller.load(file_of(helper.make_node("F40", ["x"], ["y"], domain="local"), change=doubling(40)))


def local() -> onnx.OperatorSetIdProto:
    return helper.make_opsetid("local", 1)


def doubling(levels: int) -> Any:
    """Functions of which each calls the one before it twice."""

    def change(model: onnx.ModelProto) -> None:
        model.opset_import.append(local())
        for level in range(1, levels + 1):
            operator, domain = (f"F{level - 1}", "local") if level > 1 else ("Neg", "")
            nodes = [
                helper.make_node(operator, [name], [result], domain=domain) for name, result in (("a", "c"), ("c", "b"))
            ]
            imports = [helper.make_opsetid("", 20), local()]
            model.functions.append(helper.make_function("local", f"F{level}", ["a"], ["b"], nodes, imports))

    return change


def test_two_inputs_two_weights_and_two_attributes_of_one_name_are_refused() -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    for change in (
        lambda model: model.graph.initializer.extend([weight, weight]),
        lambda model: model.graph.input.append(model.graph.input[0]),
    ):
        with pytest.raises(ContractError, match="two inputs or two weights of a graph are called"):
            file_of(ADD, change=change)
    first, second = choice(branch(*chain("xz")))
    second.attribute.append(second.attribute[0])
    with pytest.raises(ContractError, match=r"has the attribute '.*_branch' twice"):
        file_of(first, second)


# -- what protobuf would merge or skip ------------------------------------------------------------------------


def test_a_second_graph_is_refused() -> None:
    """Protobuf would merge both, so that the checked graph is not the one that runs."""
    data = file_of(helper.make_node("Neg", ["x"], ["y"]))
    other = onnx.ModelProto()
    other.graph.initializer.append(external())
    with pytest.raises(ContractError, match="a model has field 7 twice"):
        ModelFile.parse(data + other.SerializeToString())


@pytest.mark.parametrize("depth", [40, 5000])
def test_deep_nesting_is_refused(depth: int) -> None:
    graph = b""
    for _ in range(depth):
        attribute = encoded(1, b"body") + encoded(6, graph)
        graph = encoded(1, encoded(5, attribute))
    with pytest.raises(ContractError, match="more than 32 subgraphs inside of each other"):
        ModelFile.parse(encoded(7, graph))


def test_very_many_fields_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exploy.runtime.onnx.protobuf.MAX_FIELDS", 1000)
    with pytest.raises(ContractError, match="a message with more than 1000 fields"):
        ModelFile.parse(b"\xa0\x06\x00" * 1001)


def test_graphs_for_training_are_refused() -> None:
    with pytest.raises(ContractError, match="graphs for training"):
        file_of(*chain("xy"), change=lambda model: model.training_info.add())


@pytest.mark.parametrize("number", [-1, -2, 2**31, -(2**63)])
def test_numbers_that_end_the_process_in_onnxruntime_are_refused(number: int) -> None:
    """GatherND with a negative batch_dims aborts, which no process survives."""
    nodes = [
        helper.make_node("GatherND", ["table", "index"], ["g"], batch_dims=number),
        helper.make_node("Add", ["x", "g"], ["y"]),
    ]
    weights = {"table": np.zeros((2, 1), np.float32), "index": np.zeros((1, 1), np.int64)}
    with pytest.raises(ContractError, match=f"A node 'GatherND' of .* has 'batch_dims' = {number}"):
        Controller.load(file_of(*nodes, weights=weights))


@pytest.mark.parametrize("number", [0, -1])
def test_a_split_into_nothing_is_refused(number: int) -> None:
    """onnxruntime would divide by zero."""
    node = helper.make_node("Split", ["x"], ["y"], num_outputs=number)
    with pytest.raises(ContractError, match=f"A node 'Split' of .* has 'num_outputs' = {number}"):
        Controller.load(file_of(node))


def test_a_constant_may_be_any_number() -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value_int=2**63 - 1),
        helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Min", ["x", "f"], ["y"]),
    ]
    assert Controller.load(file_of(*nodes)).step({"x": [1.0]})["y"] == 1


def test_an_operator_without_its_inputs_is_refused() -> None:
    with pytest.raises(ContractError):
        Controller.load(file_of(helper.make_node("Identity", [], ["y"])))


def test_a_large_file_loads(tmp_path: Path) -> None:
    """Limits are far away from real files: 24 MiB of weights, several hundred operators."""
    weights = {f"w{index}": np.full((4096,), index, np.float32) for index in range(500)} | {
        "large": np.zeros(2**22, np.float32)
    }
    nodes = [helper.make_node("ReduceSum", [name], [f"s_{name}"], keepdims=0) for name in weights]
    nodes.append(helper.make_node("Sum", ["x", *(f"s_{name}" for name in weights)], ["y"]))
    assert Controller.load(file_of(*nodes, weights=weights)).step({"x": [1.0]})["y"] == 1 + 4096 * sum(range(500))
