"""Random graphs compute what onnxruntime does, whatever meets: views, broadcasts, no elements, shared values."""

import shutil
from collections.abc import Sequence

import numpy as np
import pytest
from onnx import helper

from tests.support.c_programs import FLAGS, model_of, run_c, run_onnxruntime
from tests.support.random_graphs import RandomGraph, joined

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
TOLERANCE = 1e-4  # no value is larger than 30; a wrong element is off by much more
AT_ONCE = 10


def assert_as_onnxruntime(graphs: Sequence[RandomGraph]) -> None:
    inputs = {name: array for graph in graphs for name, array in graph.inputs.items()}
    expected = {name: array for graph in graphs for name, array in graph.outputs.items()}
    got = run_c(joined(graphs), inputs, (*FLAGS, "-fsanitize=undefined", "-fno-sanitize-recover=all"), expected)
    for name, array in expected.items():
        np.testing.assert_allclose(got[name], array, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


@pytest.mark.matrix(4)
@pytest.mark.parametrize("start", range(0, 300, AT_ONCE))
def test_graphs_together_in_one_program(start: int) -> None:
    assert_as_onnxruntime([RandomGraph(seed, f"g{seed}_") for seed in range(start, start + AT_ONCE)])


@pytest.mark.matrix(15)
@pytest.mark.parametrize(
    "seed", [259, 1010, 1038, 1069, 1131, 1147, 1192, 1212, 1254, 1305, 1333, 1356, *range(2000, 2200)]
)
def test_a_graph_alone(seed: int) -> None:
    """The first ones are those that once were wrong."""
    assert_as_onnxruntime([RandomGraph(seed)])


def test_graphs_have_all_that_is_promised() -> None:
    """Many operators, no elements, single elements, scalars, and outputs that are inputs, constants, or the same."""
    graphs = [RandomGraph(seed) for seed in range(60)]
    shapes = {array.shape for graph in graphs for array in (*graph.inputs.values(), *graph.outputs.values())}
    assert () in shapes and any(0 in shape for shape in shapes) and any(1 in shape for shape in shapes)
    assert len({node.op_type for graph in graphs for node in graph.nodes}) > 50
    ends = [[node.input[0] for node in graph.nodes if node.output[0] in graph.outputs] for graph in graphs]
    assert any(len(set(names)) < len(names) for names in ends)
    assert any(set(names) & set(graph.inputs) for names, graph in zip(ends, graphs, strict=True))
    assert any(set(names) & set(graph.constants) for names, graph in zip(ends, graphs, strict=True))


@pytest.mark.parametrize("operator", ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"])
def test_elements_compared_with_themselves_say_which_are_nan(operator: str) -> None:
    x = np.array([1.0, np.nan, np.inf, -0.0], np.float32)
    model = model_of([helper.make_node(operator, ["x", "x"], ["y"])], {"x": x}, ["y"])
    got = run_c(model, {"x": x})["y"]
    np.testing.assert_array_equal(got, run_onnxruntime(model, {"x": x})["y"])
