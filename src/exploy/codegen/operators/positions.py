"""Elements at indices that are computed, which are checked before they are used."""

from collections.abc import Sequence
from dataclasses import dataclass

from exploy.codegen.step_writer import Reader, StepWriter
from exploy.codegen.values import View


@dataclass(frozen=True)
class Index:
    """Indices of one dimension of what is read or written.

    Args:
        view: The indices.
        size: The size of the dimension.
        stride: How far its elements are apart.
    """

    view: View
    size: int
    stride: int


def element_at(step: StepWriter, reader: Reader, view: View, indices: Sequence[Index]) -> str:
    """The element of a view, further on by some indices, inside of a loop. An index that is outside sets the status."""
    function = step.kernel("position")
    name, _, place = reader(view).partition("[")
    terms = [] if place == "0]" else [place[:-1]]
    for index in indices:
        position = f"{function}({reader(index.view)}, {index.size}, {step.status})"
        terms.append(position if index.stride == 1 else f"({position} * {index.stride})")
    return f"{name}[{' + '.join(terms) or '0'}]"
