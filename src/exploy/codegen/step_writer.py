"""Writes the body of the C function of one step: statements, loops, intermediate results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from exploy.codegen import scratch
from exploy.codegen.c_types import c_type
from exploy.codegen.names import Names
from exploy.codegen.operation import Operation
from exploy.codegen.tables import Tables
from exploy.codegen.values import Buffer, Computed, Constant, Shape, Value, View, broadcast_shape

Reader = Callable[[View], str]  # writes the element of a view at the indices of a loop

_INDEX_NAMES = "ijklmnpq"
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
            size = f"{value.size} * sizeof(*{target.buffer.name})"
            self.emit(f"(void)memcpy({self.pointer(target)}, {self.pointer(value)}, {size});")
            return target
        self.loop(value.shape, [target, *value.views()], lambda reader: f"{reader(target)} = {_render(value, reader)};")
        return target

    def loop(self, shape: Shape, views: Sequence[View], statement: Callable[[Reader], str]) -> None:
        """Write loops over all elements of a shape, with as few dimensions as the strides of the views allow.

        Args:
            shape: The shape.
            views: What is read and written; each has this shape.
            statement: Makes the statement inside, given a function that writes the element of a view.
        """
        sizes, strides = _collapsed(shape, [view.strides for view in views])
        steps = {id(view): step for view, step in zip(views, strides, strict=True)}
        names = _INDEX_NAMES[: len(sizes)]

        def reader(view: View) -> str:
            flat = View(view.buffer, sizes, steps[id(view)], view.offset)
            return self.element(flat, names)

        text = [
            f"{'  ' * depth}for (int32_t {name} = 0; {name} < {size}; {name}++) {{"
            for depth, (name, size) in enumerate(zip(names, sizes, strict=True))
        ]
        text += [f"{'  ' * len(sizes)}{line}" for line in statement(reader).splitlines()]
        text += [f"{'  ' * depth}}}" for depth in reversed(range(len(sizes)))]
        self.emit("\n".join(text))

    # -- the finished body

    def finish(self) -> tuple[list[str], dict[np.dtype, int]]:
        """Give buffers their places.

        Returns:
            The lines of the body, and how much scratch memory of each type they use.
        """
        places, lengths = scratch.place(self._buffers)
        lines = []
        for line in self._lines:
            if isinstance(line, str):
                lines.append(line)
                continue
            start = places[line.buffer.name]
            kind = c_type(line.buffer.dtype).name
            lines.append(
                f"{kind} *const {line.buffer.name} = scratch->{scratch.field_of(line.buffer.dtype)}"
                + (f" + {start};" if start else ";")
            )
        return lines, lengths


def _render(value: Value, reader: Reader) -> str:
    if isinstance(value, View):
        return reader(value)
    if isinstance(value, Constant):
        assert value.only is not None
        return value.only
    assert isinstance(value, Computed)
    return value.form.format(*(_render(item, reader) for item in value.operands))


def _collapsed(shape: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """Leave out dimensions of size 1, and join those that all views step through as through one."""
    kept = [axis for axis, size in enumerate(shape) if size != 1]
    groups: list[list[int]] = []
    for axis in kept:
        if groups and all(step[groups[-1][-1]] == step[axis] * shape[axis] for step in strides):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    sizes = tuple(int(np.prod([shape[axis] for axis in group])) for group in groups)
    return sizes, [tuple(step[group[-1]] for group in groups) for step in strides]
