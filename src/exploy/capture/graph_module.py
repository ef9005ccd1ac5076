"""Converts a finished graph to a module that owns its constants and runs on the CPU."""

from typing import Any

import torch
from torch import fx

from exploy.capture.frozen import tensors_of
from exploy.capture.recording import WHERE, Recording, mutated_arguments
from exploy.environment.tensor_copies import cpu_copy
from exploy.errors import CaptureError
from exploy.live.location import UNKNOWN


def own_module(
    graph: fx.Graph, recording: Recording, roots: dict[str, object]
) -> tuple[fx.GraphModule, dict[str, str]]:
    """Return the graph as a module with CPU copies of its constants, and the names of constants that are weights."""
    graph.eliminate_dead_code(is_impure_node=has_effect)
    _make_portable(graph)
    constants: dict[str, torch.Tensor] = {}
    for node in graph.nodes:
        if node.op == "get_attr" and node.target not in constants:
            constants[node.target] = _stored(node, getattr(recording.module, node.target))
    module = fx.GraphModule(torch.nn.Module(), fx.Graph())
    for name, value in constants.items():
        module.register_buffer(name, value)
    module.graph = graph
    return module, _weight_names(recording, constants, roots)


def _stored(node: fx.Node, value: object) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        place = next((user.meta[WHERE] for user in node.users if WHERE in user.meta), UNKNOWN)
        raise CaptureError(
            f"{place}: an operator uses a {type(value).__name__}, which cannot be stored in a file. "
            "Convert quantized and packed modules to ordinary modules before the export."
        )
    return cpu_copy(value)


def _weight_names(recording: Recording, constants: dict[str, torch.Tensor], roots: dict[str, object]) -> dict[str, str]:
    known = {
        tensor.data_ptr(): f"{root}.{name}"
        for root, module in roots.items()
        if isinstance(module, torch.nn.Module)
        for name, tensor in tensors_of(module).items()
    }
    addresses = {name: getattr(recording.module, name).data_ptr() for name in constants}
    return {name: known[address] for name, address in addresses.items() if address in known}


def has_effect(node: fx.Node) -> bool:
    """Whether a node must be kept even if its result is not read. Random draws need not be kept."""
    return node.op in ("placeholder", "output") or bool(mutated_arguments(node))


def _make_portable(graph: fx.Graph) -> None:
    """Make every operator run on the CPU, without the environment's random generators."""

    def moved(argument: Any) -> Any:
        return torch.device("cpu") if isinstance(argument, torch.device) else argument

    for node in graph.nodes:
        if node.op == "call_function":
            node.args = fx.node.map_aggregate(node.args, moved)
            kwargs = {name: None if name == "generator" else value for name, value in node.kwargs.items()}
            node.kwargs = fx.node.map_aggregate(kwargs, moved)
    graph.eliminate_dead_code(is_impure_node=has_effect)
