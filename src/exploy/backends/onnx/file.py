"""Serialises ONNX models."""

import onnx_ir as ir

from exploy.errors import LoweringError

MAX_BYTES = 2**31 - 1


def serialize(model: ir.Model) -> bytes:
    """The bytes of a model including all its weights.

    Raises:
        LoweringError: If the model is larger than 2 GiB, the limit of an ONNX file.
    """
    weights = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
    if weights <= MAX_BYTES:
        data = ir.to_proto(model).SerializeToString(deterministic=True)
        if len(data) <= MAX_BYTES:
            return bytes(data)
        weights = len(data)
    raise LoweringError(
        f"The model has {weights / 2**30:.2f} GiB, but an ONNX file can have at most 2 GiB. "
        "Use a smaller network or store its weights in half precision."
    )
