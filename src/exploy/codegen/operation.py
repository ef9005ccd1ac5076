"""One operator of a graph, as its C code is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exploy.codegen.values import Constant, Value
from exploy.errors import LoweringError


@dataclass(frozen=True)
class Operation:
    """An operator with its operands.

    Args:
        op_type: The operator, as ONNX names it.
        attributes: Its attributes.
        inputs: Its operands; None for those that are left out.
        outputs: The names of its results, empty for those that nobody reads.
        place: The line of the environment that it comes from; empty if the file does not tell.
    """

    op_type: str
    attributes: Mapping[str, Any]
    inputs: Sequence[Value | None]
    outputs: Sequence[str]
    place: str = ""

    def input(self, index: int) -> Value:
        """An operand that must be there.

        Raises:
            LoweringError: If it is left out.
        """
        value = self.optional(index)
        if value is None:
            raise self.refused(f"without operand {index}")
        return value

    def optional(self, index: int) -> Value | None:
        """An operand, or None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def known(self, index: int, what: str) -> np.ndarray:
        """The numbers of an operand that must be constant, such as axes.

        Raises:
            LoweringError: If they are computed.
        """
        value = self.input(index)
        if not isinstance(value, Constant):
            raise self.refused(f"whose {what} are computed")
        return value.array

    def integers(self, index: int, what: str) -> list[int] | None:
        """The integers of an operand that must be constant, or None if it is left out.

        Raises:
            LoweringError: If they are computed.
        """
        return None if self.optional(index) is None else [int(item) for item in self.known(index, what).reshape(-1)]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.attributes.get(name, default)

    def axis(self, rank: int, default: int = 0) -> int:
        """The attribute `axis`, counted from the front."""
        return int(self.attribute("axis", default)) % max(rank, 1)

    def refused(self, form: str) -> LoweringError:
        """The error for a form of the operator that C code cannot be written for."""
        kinds = ", ".join(f"{item.dtype}{list(item.shape)}" if item is not None else "nothing" for item in self.inputs)
        place = f"{self.place}: " if self.place else ""
        return LoweringError(
            f"{place}C code cannot be written for the operator {self.op_type} {form} (of {kinds}). Use other "
            "operators, or the backend 'onnx'."
        )
