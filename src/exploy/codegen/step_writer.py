"""Writes the body of the C function of one step: statements, loops, intermediate results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from exploy.codegen import scratch
from exploy.codegen.c_types import c_type
from exploy.codegen.loops import Nest
from exploy.codegen.names import Names
from exploy.codegen.operation import Operation
from exploy.codegen.tables import Tables
from exploy.codegen.values import Buffer, Computed, Constant, Shape, Value, View, broadcast_shape

Reader = Callable[[View], str]  # writes the element of a view at the indices of a loop

_LARGEST_EXPRESSION = 10  # operations in one statement


@dataclass(frozen=True)
class _Declaration:
    """Where the pointer to a buffer in scratch memory is declared."""

    buffer: Buffer


class StepWriter:
    """The body of a function, written operator by operator.

    Args:
        tables: The constants of the file.
        kernels: The names of the kernels that the file uses; new ones are added.
        ports: The names of the ports, which intermediate results must not have.
    """

    def __init__(self, tables: Tables, kernels: set[str], ports: Sequence[str]):
        self.tables = tables
        self.uses_status = False
        self._kernels = kernels
        self._names = Names(tuple(ports))
        self._lines: list[str | _Declaration] = []
        self._buffers: list[Buffer] = []
        self._clock = 0
        self._title = ""
        self._hints: list[str] = []

    # -- statements

    def begin(self, operation: Operation) -> None:
        """Start an operator. Buffers that it uses are in use until its last statement."""
        self._clock += 1
        self._title = f"/* {operation.op_type}" + (f": {operation.place}" if operation.place else "") + " */"
        self._hints = [name for name in operation.outputs if name]

    def emit(self, text: str) -> None:
        """Add statements."""
        if self._title:
            self._lines.append(self._title)
            self._title = ""
        self._lines += text.splitlines()

    def kernel(self, name: str) -> str:
        """The function of a kernel, which the file then contains."""
        self._kernels.add(name)
        return f"exploy_{name}"

    @property
    def status(self) -> str:
        """The address of the status, for kernels that may find a value that they cannot take."""
        self.uses_status = True
        return "&status"

    # -- values

    def temporary(self, shape: Sequence[int], dtype: np.dtype | type | str, hint: str = "") -> View:
        """New elements in scratch memory."""
        wanted = hint or (self._hints[0] if self._hints else "value")
        size = int(np.prod(tuple(shape), dtype=np.int64))
        buffer = Buffer(self._names.give(wanted), np.dtype(dtype), max(1, size), [self._clock])
        if self._title:
            self.emit("")
        self._buffers.append(buffer)
        self._lines.append(_Declaration(buffer))
        return View(buffer, shape)

    def constant(self, array: np.ndarray, hint: str) -> View:
        """Numbers as a table of the file."""
        return self.tables.view(Constant(np.asarray(array), hint))

    def view(self, value: Value) -> View:
        """Elements in memory, perhaps with strides: what is computed is stored first."""
        if isinstance(value, View):
            return value
        return self.tables.view(value) if isinstance(value, Constant) else self.store(value)

    def contiguous(self, value: Value) -> View:
        """Elements in memory, next to each other."""
        found = self.view(value)
        return found if found.is_contiguous else self.store(found)

    def pointer(self, view: View) -> str:
        """The address of the first element, as C."""
        view.buffer.uses.append(self._clock)
        return f"{view.buffer.name} + {view.offset}" if view.offset else view.buffer.name

    def element(self, view: View, index: Sequence[str]) -> str:
        """An element by its indices, as C."""
        terms = [
            position if step == 1 else f"{position} * {step}"
            for position, step, size in zip(index, view.strides, view.shape, strict=True)
            if step and size != 1 and position != "0"
        ]
        view.buffer.uses.append(self._clock)
        terms += [str(view.offset)] if view.offset or not terms else []
        return f"{view.buffer.name}[{' + '.join(terms)}]"

    def computed(self, form: str, dtype: np.dtype | type | str, *operands: Value) -> Value:
        """Elements that are computed one by one from those of operands, which are broadcast.

        Args:
            form: The expression, with {0}, {1} … for the elements.
            dtype: Type of the results.
            *operands: The operands.
        """
        shape = broadcast_shape(*operands)
        readable = [self._readable(item, shape) for item in operands]
        return Computed(shape, dtype, form, [item.broadcast(shape) for item in readable])

    def _readable(self, value: Value, shape: Shape) -> Value:
        if isinstance(value, Constant):
            return value if value.only is not None else self.tables.view(value)
        size = int(np.prod(shape, dtype=np.int64))
        if isinstance(value, Computed) and (value.cost() >= _LARGEST_EXPRESSION or value.size < size):
            return self.store(value)
        return value

    # -- results in memory

    def store(self, value: Value, target: View | None = None) -> View:
        """Compute all elements into memory; by default into new scratch memory."""
        if isinstance(value, Constant) and value.only is None:
            value = self.tables.view(value)
        if target is None:
            target = self.temporary(value.shape, value.dtype, value.hint if isinstance(value, Computed) else "")
        if value.size == 0:
            return target
        if isinstance(value, View) and value.is_contiguous and target.is_contiguous and value.size > 1:
            size = f"{value.size}u * sizeof(*{target.buffer.name})"
            self.emit(f"(void)memcpy({self.pointer(target)}, {self.pointer(value)}, {size});")
            return target
        self.loop(value.shape, [target, *value.views()], lambda reader: f"{reader(target)} = {render(value, reader)};")
        return target

    def loop(self, shape: Shape, views: Sequence[View], statement: Callable[[Reader], str]) -> None:
        """Write loops over all elements of a shape, with as few dimensions as the strides of the views allow.

        Args:
            shape: The shape.
            views: What is read and written; each has this shape.
            statement: Makes the statement inside, given a function that writes the element of a view.
        """
        if 0 in shape:
            return
        nest = self.nest(shape, (), views)
        lines = statement(nest.read).splitlines()
        self.emit("\n".join(nest.outer(lines) if len(lines) == 1 else nest.block(lines)))

    def nest(self, shape: Shape, inner: Sequence[int], views: Sequence[View]) -> Nest:
        """Loops over all elements of a shape, of which those over some dimensions are inside of the others."""
        return Nest(shape, inner, views, self.element)

    # -- the finished body

    def finish(self) -> tuple[list[str], dict[np.dtype, int]]:
        """Give buffers their places.

        Returns:
            The lines of the body, and how much scratch memory of each type they use.
        """
        used = [buffer for buffer in self._buffers if len(buffer.uses) > 1]  # the first is that it was made
        places, lengths = scratch.place(used)
        lines = []
        for line in self._lines:
            if isinstance(line, str):
                lines.append(line)
                continue
            start = places.get(line.buffer.name)
            if start is None:
                continue
            kind = c_type(line.buffer.dtype).name
            lines.append(
                f"{kind} *const {line.buffer.name} = scratch->{scratch.field_of(line.buffer.dtype)}"
                + (f" + {start};" if start else ";")
            )
        return lines, lengths


def render(value: Value, reader: Reader) -> str:
    """The element of a value at the indices of a loop, as C."""
    if isinstance(value, View):
        return reader(value)
    if isinstance(value, Constant):
        assert value.only is not None
        return value.only
    assert isinstance(value, Computed)
    return value.form.format(*(render(item, reader) for item in value.operands))
