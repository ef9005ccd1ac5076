"""Einstein sums that are products of matrices."""

import math
from dataclasses import dataclass

from exploy.codegen.operation import Operation
from exploy.codegen.operators.products import product, transposed
from exploy.codegen.operators.registry import writes
from exploy.codegen.operators.shapes import reshaped
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Value


@dataclass(frozen=True)
class _Sum:
    """The letters of an equation: of both operands and of the result."""

    left: str
    right: str
    result: str

    @classmethod
    def of(cls, operation: Operation) -> "_Sum":
        """The equation of an operator.

        Raises:
            LoweringError: If it is no product of two operands.
        """
        text = str(operation.attribute("equation")).replace(" ", "")
        operands, arrow, result = text.partition("->")
        left, comma, right = operands.partition(",")
        if not arrow:
            result = "".join(letter for letter in sorted(set(left + right)) if (left + right).count(letter) == 1)
        found = cls(left, right, result)
        if not comma or not found.is_product:
            raise operation.refused(f"with the equation {text}")
        return found

    @property
    def is_product(self) -> bool:
        """Whether each letter stands for one dimension, and only those that both operands have are summed."""
        parts = (self.left, self.right, self.result)
        once = all(part.isalpha() and len(set(part)) == len(part) for part in parts if part)
        alone = set(self.left) ^ set(self.right)
        return once and alone <= set(self.result) <= set(self.left + self.right)

    @property
    def stack(self) -> str:
        """The letters that both operands and the result have."""
        return "".join(letter for letter in self.left if letter in self.right and letter in self.result)

    @property
    def summed(self) -> str:
        """The letters that both operands have, and the result has not."""
        return "".join(letter for letter in self.left if letter in self.right and letter not in self.result)

    @property
    def rows(self) -> str:
        """The letters of the left operand alone."""
        return "".join(letter for letter in self.left if letter not in self.right)

    @property
    def columns(self) -> str:
        """The letters of the right operand alone."""
        return "".join(letter for letter in self.right if letter not in self.left)


@writes("Einsum")
def write_einsum(step: StepWriter, operation: Operation) -> Value:
    """A sum of products over the dimensions that two operands share, as a product of matrices."""
    equation = _Sum.of(operation)
    left, right = operation.input(0), operation.input(1)
    if left.dtype.kind not in "fiu":
        raise operation.refused("of these types")
    sizes = dict(zip(equation.left, left.shape, strict=True)) | dict(zip(equation.right, right.shape, strict=True))
    stack, rows, summed, columns = equation.stack, equation.rows, equation.summed, equation.columns
    a = _arranged(step, left, equation.left, [*stack, rows, summed], sizes)
    b = _arranged(step, right, equation.right, [*stack, summed, columns], sizes)
    letters = stack + rows + columns
    result = reshaped(step, product(step, a, b), [sizes[letter] for letter in letters])
    return transposed(step, result, [letters.index(letter) for letter in equation.result])


def _arranged(step: StepWriter, value: Value, letters: str, groups: list[str], sizes: dict[str, int]) -> Value:
    """A value with its dimensions in the order of groups of letters, each group as one dimension."""
    ordered = transposed(step, value, [letters.index(letter) for group in groups for letter in group])
    return reshaped(step, ordered, [math.prod(sizes[letter] for letter in group) for group in groups])
