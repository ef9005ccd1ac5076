"""Cuts a lowered model into policy step and sub-step, and joins them under one `If`, weights stored once."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from exploy.capture.program import Program
from exploy.contract import STEP_COUNT

_MAX_STORED_ZEROS = 1024


@dataclass(frozen=True)
class JoinedSteps:
    """The deployable model, and its two steps as plain graphs for viewing."""

    model: ir.Model
    policy_step: ir.Model
    sub_step: ir.Model


def join_steps(lowered: ir.Model, program: Program, decimation: int) -> JoinedSteps:
    """Build the deployable model from a lowered one.

    `ctx.step_count % decimation == 0` chooses the policy step. In the sub-step, outputs that it does not compute
    (the observations and actions) are zeros. Inputs that no output depends on are left out.
    """
    graph = lowered.graph
    name_weights(graph, program)
    for value, name in zip(graph.inputs, program.input_names, strict=True):
        value.name = name
    count = len(program.policy_step_outputs)
    default_values = dict(zip(program.policy_step_outputs, graph.outputs[:count], strict=True))
    sub_step_values = dict(zip(program.sub_step_outputs, graph.outputs[count:], strict=True))
    order = list(graph.initializers)
    default, sub_step = (_part(graph, values, order) for values in (default_values, sub_step_values))
    return JoinedSteps(
        model=_model(lowered, _joined(default.clone(), sub_step.clone(), program.used_inputs, order, decimation)),
        policy_step=_model(lowered, _without_unused_inputs(default)),
        sub_step=_model(lowered, _without_unused_inputs(sub_step)),
    )


def _model(lowered: ir.Model, graph: ir.Graph) -> ir.Model:
    return ir.Model(graph, ir_version=lowered.ir_version, producer_name="exploy")


def name_weights(graph: ir.Graph, program: Program) -> None:
    """Call weights as the modules call them and other constants by number, avoiding the names of ports."""
    taken = {*program.input_names, *program.policy_step_outputs, STEP_COUNT}
    values, names = list(graph.initializers.values()), []
    for index, value in enumerate(values):
        name = program.parameter_names.get(value.name or "", f"constant_{index}")
        while name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    ir.convenience.rename_values(values, names)


def _part(graph: ir.Graph, outputs: dict[str, ir.Value], order: list[str]) -> ir.Graph:
    """The part of a graph that some outputs need, as a graph of its own with the outputs' port names."""
    names = list(outputs)
    if not outputs:
        return ir.Graph(inputs=[_copy_of(value) for value in graph.inputs], outputs=[], nodes=[], name=graph.name)
    part = ir.convenience.extract(graph, graph.inputs, list(outputs.values()))
    give_outputs_producers(part)
    internal = [value for node in part for value in node.outputs]
    prefix = _free_prefix([value.name or "" for value in part.inputs] + names + order)
    for index, value in enumerate(internal):
        value.name = f"{prefix}{value.name or index}"
    for value, name in zip(part.outputs, names, strict=True):
        value.name = name
    _sort_initializers(part, order)
    return part


def give_outputs_producers(graph: ir.Graph) -> None:
    """Put an Identity before outputs that are inputs, weights, or the same value as another output."""
    seen: set[ir.Value] = set()
    for index, value in enumerate(graph.outputs):
        if value.producer() is None or value in seen:
            node = ir.node("Identity", [value])
            node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
            graph.append(node)
            graph.outputs[index] = node.outputs[0]
        seen.add(graph.outputs[index])


def _free_prefix(names: list[str]) -> str:
    prefix = "_"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _sort_initializers(graph: ir.Graph, order: list[str]) -> None:
    values = dict(graph.initializers)
    graph.initializers.clear()
    for name in order:
        if name in values:
            graph.register_initializer(values[name])


def _without_unused_inputs(graph: ir.Graph) -> ir.Graph:
    for value in [value for value in graph.inputs if not value.uses()]:
        graph.inputs.remove(value)
    return graph


def _joined(default: ir.Graph, sub_step: ir.Graph, used: list[str], order: list[str], decimation: int) -> ir.Graph:
    prefix = _free_prefix([*used, *order, *(value.name or "" for value in default.outputs)])
    shared = {value.name or "": _copy_of(value) for value in default.inputs if value.name in used}
    weights = {name: value for part in (sub_step, default) for name, value in part.initializers.items()}
    weights = {name: _copy_of(weights[name]) for name in order if name in weights}
    port_names = [value.name or "" for value in default.outputs]
    missing = {value.name: value for value in default.outputs if value.name not in _names(sub_step.outputs)}
    results = [_copy_of(value) for value in default.outputs]
    branches = {
        "then_branch": _branch("default", default, shared | weights, port_names, {}, prefix),
        "else_branch": _branch("process_actions", sub_step, shared | weights, port_names, missing, prefix),
    }
    step_count = ir.Value(name=STEP_COUNT, type=ir.TensorType(ir.DataType.INT32), shape=ir.Shape([]))
    constants = [
        ir.Value(name=f"{prefix}{name}", const_value=ir.tensor(np.array(number, np.int32), name=f"{prefix}{name}"))
        for name, number in (("decimation", decimation), ("zero", 0))
    ]
    remainder = ir.node("Mod", [step_count, constants[0]])
    is_policy_step = ir.node("Equal", [remainder.outputs[0], constants[1]])
    choice = ir.node("If", [is_policy_step.outputs[0]], attributes=branches, outputs=results)
    remainder.outputs[0].name, is_policy_step.outputs[0].name = f"{prefix}sub_step", f"{prefix}is_policy_step"
    return ir.Graph(
        inputs=[step_count, *(shared[name] for name in used)],
        outputs=results,
        nodes=[remainder, is_policy_step, choice],
        initializers=[*weights.values(), *constants],
        opset_imports=default.opset_imports,
        name="exploy",
    )


def _names(values: Iterable[ir.Value]) -> set[str]:
    return {value.name or "" for value in values}


def _copy_of(value: ir.Value) -> ir.Value:
    return ir.Value(name=value.name, type=value.type, shape=value.shape, const_value=value.const_value)


def _branch(
    name: str,
    part: ir.Graph,
    outer: dict[str, ir.Value],
    port_names: list[str],
    zeros: dict[str | None, ir.Value],
    prefix: str,
) -> ir.Graph:
    """A step as the body of an `If`: it reads ports and weights from the graph around it."""
    for value in [*part.inputs, *part.initializers.values()]:
        if value.name in outer:
            ir.convenience.replace_all_uses_with(value, outer[value.name])
    nodes = list(part)
    part.remove(nodes)
    results = {value.name or "": value for value in part.outputs}
    part.outputs.clear()
    for port, like in zeros.items():
        nodes += _zeros(like)
        results[port or ""] = nodes[-1].outputs[0]
    for port, value in results.items():
        value.name = f"{prefix}{name}.{port}"
    for index, node in enumerate(nodes):
        node.name = f"{name}/{node.name or index}"
    return ir.Graph(inputs=[], outputs=[results[port] for port in port_names], nodes=nodes, name=name)


def _zeros(like: ir.Value) -> list[ir.Node]:
    """Nodes for zeros of the type and shape of a value; the last one returns them. Images are not stored."""
    assert like.dtype is not None and like.shape is not None
    shape, dtype = like.shape.numpy(), like.dtype.numpy()
    if math.prod(shape) <= _MAX_STORED_ZEROS:
        nodes = [ir.node("Constant", [], attributes={"value": ir.tensor(np.zeros(shape, dtype))})]
    else:
        size = ir.node("Constant", [], attributes={"value": ir.tensor(np.array(shape, np.int64))})
        size.outputs[0].name = f"{like.name}.shape"
        zero = ir.tensor(np.zeros(1, dtype))
        nodes = [size, ir.node("ConstantOfShape", size.outputs, attributes={"value": zero})]
    nodes[-1].outputs[0].type, nodes[-1].outputs[0].shape = like.type, like.shape
    return nodes
