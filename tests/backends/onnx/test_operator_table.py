"""Torch's operator table is built once per opset, and the cached table cannot be changed."""

import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry

from exploy.backends.onnx.operator_table import kept_operator_table


def test_the_table_is_built_once_for_an_opset() -> None:
    with kept_operator_table():
        first, second, other = (ONNXRegistry.from_torchlib(opset_version=opset) for opset in (20, 20, 18))
    assert first.functions == second.functions and first.opset_version == second.opset_version == 20
    assert first.get_decomps(torch.ops.aten.relu.default)[0] is second.get_decomps(torch.ops.aten.relu.default)[0]
    assert other.opset_version == 18


def test_what_is_registered_in_one_table_is_not_in_the_next() -> None:
    with kept_operator_table():
        table = ONNXRegistry.from_torchlib(opset_version=20)
        before = len(table.get_decomps(torch.ops.aten.relu.default))
        table.register_op(torch.ops.aten.relu.default, lambda x: x)
        assert len(table.get_decomps(torch.ops.aten.relu.default)) == before + 1
        assert len(ONNXRegistry.from_torchlib(opset_version=20).get_decomps(torch.ops.aten.relu.default)) == before


def test_torch_is_as_it_was_afterwards() -> None:
    build = ONNXRegistry.__dict__["from_torchlib"].__func__
    with kept_operator_table():
        assert ONNXRegistry.__dict__["from_torchlib"].__func__ is not build
    assert ONNXRegistry.__dict__["from_torchlib"].__func__ is build


def test_operators_that_come_later_are_in_the_table() -> None:
    with kept_operator_table():
        before = ONNXRegistry.from_torchlib(opset_version=20)
        with torch.library._scoped_library("exploy_test", "FRAGMENT") as library:
            library.define("later(Tensor x) -> Tensor")
            assert ONNXRegistry.from_torchlib(opset_version=20).get_decomps(torch.ops.aten.relu.default)
            rebuilt = ONNXRegistry.from_torchlib(opset_version=20)
    one, other = (table.get_decomps(torch.ops.aten.relu.default)[0] for table in (before, rebuilt))
    assert one is not other, "a table that was built before an operator was registered may lack its form"
