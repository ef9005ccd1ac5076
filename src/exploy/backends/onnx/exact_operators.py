"""Replaces operators whose ONNX form is wrong at some values, or missing, by operators with a right form.

The forms are functions in `exact_forms/` that call torch operators. They are traced and put in the operator's place.
"""

import functools
import importlib
import operator
import pkgutil
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from exploy.backends.onnx import exact_forms
from exploy.capture.recording import WHERE
from exploy.errors import LoweringError
from exploy.live.location import UNKNOWN

aten = torch.ops.aten

Form = Callable[..., Any]
Results = dict[fx.Node, torch.Tensor]


def replace_inexact_operators(
    module: fx.GraphModule, examples: tuple[torch.Tensor, ...], others: tuple[torch.Tensor, ...] | None = None
) -> list[str]:
    """Rewrite the graph of a module in place, without changing what it computes.

    Args:
        module: The module.
        examples: Values of its arguments.
        others: Values of another size, if the number of robots is open. What is computed must be right for these, too.

    Returns:
        The names of the operators that were replaced.

    Raises:
        LoweringError: If the form of an operator is for the size of the examples alone; with its line.
    """
    nodes = [node for node in module.graph.nodes if _form_of(node) is not None]
    if not nodes:
        return []
    results = _results(module, examples)
    at_others = None if others is None else _results(module, others)
    replaced = [str(node.target) for node in nodes if _replace(module, node, results, at_others)]
    module.graph.lint()
    module.recompile()
    return replaced


def has_exact_form(target: object) -> bool:
    """Whether an operator is replaced where its ONNX form is missing or inexact."""
    return _computing(target) in _forms()


def _form_of(node: fx.Node) -> Form | None:
    """The form of an operator; for one that writes to its first argument, that of what it computes."""
    return None if node.op != "call_function" else _forms().get(_computing(node.target))


@functools.cache
def _forms() -> dict[Any, Form]:
    """The forms of all modules in exact_forms/, by operator. Of several, the first one that applies counts."""
    names = sorted(item.name for item in pkgutil.iter_modules(exact_forms.__path__))
    found: dict[Any, list[Form]] = {}
    for name in names:
        module = importlib.import_module(f"{exact_forms.__name__}.{name}")
        for target, form in module.FORMS.items():
            found.setdefault(target, []).append(form)
    return {target: functools.partial(_first_of, forms) for target, forms in found.items()}


def _first_of(forms: list[Form], *args: Any, **options: Any) -> Any:
    results = (form(*args, **options) for form in forms)
    return next((result for result in results if result is not NotImplemented), NotImplemented)


@functools.cache
def _computing(target: Any) -> Any:
    """The operator that computes the same and writes nothing; the operator itself if it writes nothing."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.is_mutable or not schema.name.startswith("aten::"):
        return target
    name = schema.name.removeprefix("aten::")
    packet = getattr(aten, name.removesuffix("_"), None)
    overloads = [getattr(packet, overload) for overload in packet.overloads()] if packet is not None else []
    same = (item for item in overloads if not item._schema.is_mutable and _types(item) == _types(target))
    return next(same, target)


def _types(target: Any) -> list[str]:
    """The types of the arguments, without those that a result is written to."""
    arguments = [item for item in target._schema.arguments if not item.is_out]
    return [str(item.type) for item in arguments]


def _results(module: fx.GraphModule, examples: tuple[torch.Tensor, ...]) -> Results:
    """A tensor like the result of each node."""
    results: Results = {}

    class Recorder(fx.Interpreter):
        def run_node(self, node: fx.Node) -> Any:
            result = super().run_node(node)
            if isinstance(result, torch.Tensor):
                results[node] = result.detach().clone()
            return result

    with torch.no_grad():
        Recorder(module).run(*(example.clone() for example in examples))
    return results


def _replace(module: fx.GraphModule, node: fx.Node, results: Results, at_others: Results | None) -> bool:
    """Put the traced form in the place of a node, and return True; unless the operator is right as it is."""
    graph, form = module.graph, _form_of(node)
    assert form is not None
    nodes = list(dict.fromkeys(node.all_input_nodes))
    written = {item.name for item in node.target._schema.arguments if item.is_out}  # type: ignore[union-attr]
    if any(item not in results for item in nodes):
        return False  # it reads a part of something that is no tensor

    def call(*tensors: torch.Tensor) -> Any:
        given = dict(zip(nodes, tensors, strict=True))
        arguments = fx.map_arg((node.args, node.kwargs), lambda item: given[item])
        return form(*arguments[0], **{name: value for name, value in arguments[1].items() if name not in written})

    with torch.no_grad():
        if call(*(results[item] for item in nodes)) is NotImplemented:
            return False
        traced = make_fx(call)(*(results[item] for item in nodes))
        if at_others is not None and not _is_right(traced, call, [at_others[item] for item in nodes]):
            raise LoweringError(
                f"{node.meta.get(WHERE, UNKNOWN)}: {node.target} computes along the number of robots, which the file "
                "leaves open; it can only be written for a fixed number. Use dynamic_batch=False."
            )
    with graph.inserting_before(node):
        computed = _inlined(module, traced, nodes, node)
        if _computing(node.target) is not node.target:
            target = next((node.kwargs[name] for name in written), node.args[0])
            computed = graph.call_function(aten.copy_.default, (target, computed))
            computed.meta.update(_place(node))
    if isinstance(computed, fx.Node):
        _put_in_place(node, computed, results, at_others)
    else:
        for user in list(node.users):
            _put_in_place(user, computed[user.args[1]], results, at_others)
    graph.erase_node(node)
    return True


def _is_right(traced: fx.GraphModule, call: Form, tensors: list[torch.Tensor]) -> bool:
    """Whether a form that was traced at another size computes what it computes at this size."""
    try:
        got, expected = traced(*tensors), call(*tensors)
    except Exception:
        return False  # a size of the trace does not fit
    pairs = zip(*((item,) if isinstance(item, torch.Tensor) else item for item in (got, expected)), strict=True)
    return all(one.shape == two.shape and torch.equal(one.nan_to_num(), two.nan_to_num()) for one, two in pairs)


def _put_in_place(node: fx.Node, computed: fx.Node, *results: Results | None) -> None:
    for held in results:
        if held is not None:
            held[computed] = held[node]
    node.replace_all_uses_with(computed)
    if node.target is operator.getitem:
        node.graph.erase_node(node)


def _inlined(module: fx.GraphModule, traced: fx.GraphModule, nodes: list[fx.Node], node: fx.Node) -> Any:
    """Copy a traced graph to where nodes are inserted, and return what it returns."""
    copies: dict[fx.Node, fx.Node] = {}
    arguments = iter(nodes)
    for item in traced.graph.nodes:
        if item.op == "placeholder":
            copies[item] = next(arguments)
        elif item.op == "output":
            return fx.map_arg(item.args[0], copies.__getitem__)
        else:
            copies[item] = module.graph.node_copy(item, copies.__getitem__)
            copies[item].meta = _place(node)
            if item.op == "get_attr":
                copies[item].target = _stored(module, getattr(traced, item.target))
    raise AssertionError("a graph ends with its output")


def _stored(module: fx.GraphModule, value: torch.Tensor) -> str:
    name = f"_constant_of_form_{sum(1 for _ in module.buffers())}"
    module.register_buffer(name, value)
    return name


def _place(node: fx.Node) -> dict[str, Any]:
    return {key: value for key, value in node.meta.items() if key != "val"}
