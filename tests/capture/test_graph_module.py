"""A captured graph runs on the CPU, whatever the device of the environment was."""

import torch
from torch import fx

from exploy.capture.graph_module import own_module
from exploy.capture.recording import Recording

aten = torch.ops.aten


def make_recording(constant: torch.Tensor) -> Recording:
    recording = Recording()
    recording.module = fx.GraphModule(torch.nn.Module(), fx.Graph())
    recording.module.register_buffer("constant", constant)
    return recording


def test_operators_on_a_gpu_and_draws_from_a_generator_become_ordinary_ones():
    graph = fx.Graph()
    zeros = graph.call_function(aten.zeros.default, ([2],), {"device": torch.device("cuda:0")})
    moved = graph.call_function(aten.to.device, (zeros, torch.device("cuda:0"), torch.float32))
    generator = graph.get_attr("generator")
    noise = graph.call_function(aten.rand.generator, ([2],), {"generator": generator})
    graph.output((moved, noise))
    module, _ = own_module(graph, make_recording(torch.zeros(1)), {})
    moved_value, noise_value = module()
    assert moved_value.device.type == noise_value.device.type == "cpu"


def test_constants_are_copies_that_are_no_inference_tensors():
    with torch.inference_mode():
        live = torch.ones(2)
    graph = fx.Graph()
    graph.output((graph.get_attr("constant"),))
    module, _ = own_module(graph, make_recording(live), {})
    (value,) = module()
    assert not value.is_inference()
    assert value.data_ptr() != live.data_ptr()


def test_weights_are_named_as_their_module_names_them():
    network = torch.nn.Linear(1, 2)
    graph = fx.Graph()
    graph.output((graph.get_attr("constant"),))
    _, names = own_module(graph, make_recording(network.bias.data), {"actor": network})
    assert names == {"constant": "actor.bias"}
