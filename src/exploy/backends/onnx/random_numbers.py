"""Seeds random nodes in a graph. Without a seed, each session draws different numbers."""

import onnx_ir as ir

_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")


def seed_random_nodes(model: ir.Model, seed: int | None) -> None:
    """Give each random node its own seed, so that every session draws the same numbers. None sets no seeds."""
    if seed is None:
        return
    nodes = [node for node in model.graph.all_nodes() if node.op_type in _RANDOM]
    for number, node in enumerate(nodes):
        node.attributes.add(ir.AttrFloat32("seed", float(seed + number)))
