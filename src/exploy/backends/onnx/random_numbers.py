"""Random numbers in a graph, which are others in each session unless they are told what to start from."""

import onnx_ir as ir

_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")


def seed_random_nodes(model: ir.Model, seed: int | None) -> None:
    """Give each random node a seed of its own, so that every session draws the same numbers; None leaves them free."""
    if seed is None:
        return
    nodes = [node for node in model.graph.all_nodes() if node.op_type in _RANDOM]
    for number, node in enumerate(nodes):
        node.attributes.add(ir.AttrFloat32("seed", float(seed + number)))
