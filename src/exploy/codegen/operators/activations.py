"""Activation functions."""

import numpy as np

from exploy.codegen.c_types import literal
from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats, suffix
from exploy.codegen.operators.registry import writes
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Value

# Each activation with its parameters: attribute and default. The parameters follow the element in calls of the kernel.
_ACTIVATIONS: dict[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "Celu": ("celu", (("alpha", 1.0),)),
    "Elu": ("elu", (("alpha", 1.0),)),
    "HardSigmoid": ("hard_sigmoid", (("alpha", 0.2), ("beta", 0.5))),
    "HardSwish": ("hard_swish", ()),
    "LeakyRelu": ("leaky_relu", (("alpha", 0.01),)),
    "Mish": ("mish", ()),
    "Selu": ("selu", (("alpha", 1.6732632), ("gamma", 1.050701))),
    "Softsign": ("softsign", ()),
    "Swish": ("swish", (("alpha", 1.0),)),
    "ThresholdedRelu": ("thresholded_relu", (("alpha", 1.0),)),
}


@writes(*_ACTIVATIONS)
def write_activation(step: StepWriter, operation: Operation) -> Value:
    """An activation as a kernel."""
    x = operation.input(0)
    require_floats(operation, x)
    name, parameters = _ACTIVATIONS[operation.op_type]
    given = [literal(np.float32(operation.attribute(key, default)), x.dtype) for key, default in parameters]
    return step.computed(f"{step.kernel(f'{name}_{suffix(x)}')}({', '.join(['{0}', *given])})", x.dtype, x)


@writes("Relu")
def write_relu(step: StepWriter, operation: Operation) -> Value:
    """Elements that are at least zero; NaN stays."""
    x = operation.input(0)
    return step.computed(f"{step.kernel(f'at_least_{suffix(x)}')}({{0}}, {literal(0, x.dtype)})", x.dtype, x)


@writes("Gelu")
def write_gelu(step: StepWriter, operation: Operation) -> Value:
    """The Gaussian error linear unit, exact or by a hyperbolic tangent."""
    x = operation.input(0)
    require_floats(operation, x)
    name = {"none": "gelu", "tanh": "gelu_tanh"}.get(str(operation.attribute("approximate", "none")))
    if name is None:
        raise operation.refused(f"with approximate={operation.attribute('approximate')!r}")
    return step.computed(f"{step.kernel(f'{name}_{suffix(x)}')}({{0}})", x.dtype, x)


@writes("PRelu")
def write_prelu(step: StepWriter, operation: Operation) -> Value:
    """Elements, or those below zero times a slope."""
    x, slope = operation.input(0), operation.input(1)
    require_floats(operation, x)
    return step.computed(f"{step.kernel(f'leaky_relu_{suffix(x)}')}({{0}}, {{1}})", x.dtype, x, slope)
