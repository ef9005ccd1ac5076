"""Lowers a Program to ONNX, with both steps in one plain graph."""

import copy
import re
import traceback
from collections.abc import Iterator

import onnx_ir as ir
import torch
from onnx_ir.passes.common import ClearMetadataAndDocStringPass
from torch import fx
from torch.export import Dim

from exploy.backends.onnx.bfloat16 import replace_bfloat16
from exploy.backends.onnx.exact_operators import replace_inexact_operators
from exploy.backends.onnx.exact_patterns import exact_patterns
from exploy.backends.onnx.float64_numbers import restore_float64_numbers
from exploy.backends.onnx.folding import fold_constants
from exploy.backends.onnx.kernels import STACK_TRACE, require_kernels
from exploy.backends.onnx.older_opsets import OLDEST_OF_TORCH, in_older_opset
from exploy.backends.onnx.operator_table import kept_operator_table
from exploy.backends.onnx.squeezes import drop_squeezes
from exploy.capture.program import Program
from exploy.capture.quiet_loggers import quiet_loggers
from exploy.capture.recording import WHERE
from exploy.errors import LoweringError
from exploy.live.location import UNKNOWN

_OPERATOR = re.compile(r"OpOverload\(op='(?P<op>[^']+)', overload='(?P<overload>[^']+)'\)")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_STACK_TRACE = "stack_trace"  # the only metadata entry of a node that torch keeps in its own rewrites

PLACES = "exploy.places"
"""In the `meta` of a lowered model, which is not stored: the line of user code for each node, by the node's name."""


def lower(program: Program, opset_version: int, ir_version: int) -> ir.Model:
    """Lower a program to an ONNX model. Its outputs are those of the policy step, then those of the sub-step.

    Raises:
        LoweringError: If an operator has no ONNX form, or the graph cannot be expressed in the opset.
    """
    examples = tuple(program.examples.values())
    for node in program.module.graph.nodes:
        node.meta[_STACK_TRACE] = node.meta.get(WHERE)
    with quiet_loggers():
        try:
            module = copy.deepcopy(program.module)
            replace_bfloat16(module, examples)
            fold_constants(module)
            replace_inexact_operators(module, examples, _more_robots(program))
            exported = torch.export.export(module, examples, dynamic_shapes=_open_sizes(program))
            with kept_operator_table(), exact_patterns():
                result = torch.onnx.export(
                    exported,
                    opset_version=max(opset_version, OLDEST_OF_TORCH),
                    dynamo=True,
                    external_data=False,
                    verbose=False,
                )
        except LoweringError:
            raise
        except Exception as error:
            raise LoweringError(_explain(error)) from error
    assert result is not None
    model = result.model
    model.ir_version = ir_version
    assert result.exported_program is not None
    stored = {*result.exported_program.state_dict, *result.exported_program.constants}
    restore_float64_numbers(model, result.exported_program.graph, stored)
    register_constants(model.graph)
    drop_squeezes(model.graph)
    if opset_version < OLDEST_OF_TORCH:
        model = in_older_opset(model, opset_version)
    if model.opset_imports.get("") != opset_version:
        raise LoweringError(
            f"Opset {opset_version} was requested, but the graph could only be expressed in opset "
            f"{model.opset_imports.get('')}. Choose another opset_version."
        )
    require_kernels(model.graph, opset_version)
    model.meta[PLACES] = _places(model.graph)
    ClearMetadataAndDocStringPass()(model)
    return model


def _places(graph: ir.Graph) -> dict[str, str]:
    found = {str(node.name): node.metadata_props.get(STACK_TRACE, UNKNOWN).strip() for node in graph if node.name}
    return {name: place for name, place in found.items() if place != UNKNOWN}


def register_constants(graph: ir.Graph) -> None:
    """Make initializers of all constants that nodes read: torch's exporter forgets some that are stored twice."""
    for value in (value for node in graph for value in node.inputs if value is not None):
        if value.producer() is None and value.const_value is not None and value.name not in graph.initializers:
            graph.register_initializer(value)


def _open_sizes(program: Program) -> tuple[dict[int, Dim] | None, ...] | None:
    """The dynamic sizes of each argument, or None if all sizes are fixed."""
    if not program.batch_axes:
        return None
    axes = [program.batch_axes.get(name) for name in program.input_names]
    return tuple(None if axis is None else {axis: Dim("batch")} for axis in axes)


def _more_robots(program: Program) -> tuple[torch.Tensor, ...] | None:
    """The examples with one robot more, or None if the number of robots is fixed."""
    if not program.batch_axes:
        return None
    examples = dict(program.examples)
    for name, axis in program.batch_axes.items():
        examples[name] = torch.cat([examples[name], examples[name].narrow(axis, 0, 1)], axis)
    return tuple(examples.values())


def _explain(error: BaseException) -> str:
    for cause in _chain(error):
        found = _OPERATOR.search(str(cause))
        if found:
            name = f"{found['op']}.{found['overload']}".replace("::", ".")
            return f"{_place(error)}: the operator {name} has no ONNX form. Replace it by other torch operations."
    lines = [_ANSI.sub("", line) for cause in _chain(error) for line in str(cause).splitlines() if line.strip()]
    return f"{_place(error)}: the captured graph could not be converted to ONNX: {lines[-1] if lines else error!r}"


def _place(error: BaseException) -> str:
    """The line of user code for the node at which the exporter failed, found in the frames of the exception."""
    place = UNKNOWN
    for cause in _chain(error):
        for frame, _ in traceback.walk_tb(cause.__traceback__):
            nodes = [value for value in frame.f_locals.values() if isinstance(value, fx.Node)]
            place = next((str(node.meta[_STACK_TRACE]) for node in nodes if node.meta.get(_STACK_TRACE)), place)
    return place


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
