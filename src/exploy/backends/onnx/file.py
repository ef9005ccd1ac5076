"""Turns ONNX models into bytes."""

import onnx_ir as ir

from exploy.errors import LoweringError

MAX_BYTES = 2**31 - 1


def serialize(model: ir.Model) -> bytes:
    """The bytes of a model with all its weights inside.

    Raises:
        LoweringError: If it is larger than the 2 GiB that an ONNX file can hold.
    """
    weights = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
    if weights <= MAX_BYTES:
        data = ir.to_proto(model).SerializeToString(deterministic=True)
        if len(data) <= MAX_BYTES:
            return bytes(data)
        weights = len(data)
    raise LoweringError(
        f"The model takes {weights / 2**30:.2f} GiB, and one ONNX file holds 2 GiB at most. "
        "Use a smaller network or store its weights in half precision."
    )
