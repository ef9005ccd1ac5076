"""Which function writes which operator."""

from collections.abc import Callable, Sequence

from exploy.codegen.operation import Operation
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Value

Results = Value | Sequence[Value]
Writer = Callable[[StepWriter, Operation], Results]

_WRITERS: dict[str, Writer] = {}


def writes(*op_types: str) -> Callable[[Writer], Writer]:
    """Register the function below as the one that writes these operators of ONNX.

    It gets the step that it adds statements to, and the operator; it returns the results, in memory, constant, or to be
    computed where they are used. It raises `operation.refused()` for forms that it does not write.
    """

    def register(function: Writer) -> Writer:
        _WRITERS.update(dict.fromkeys(op_types, function))
        return function

    return register


def writer_of(op_type: str) -> Writer | None:
    """The function that writes an operator."""
    return _WRITERS.get(op_type)


def known_operators() -> list[str]:
    """All operators that C code can be written for."""
    return sorted(_WRITERS)
