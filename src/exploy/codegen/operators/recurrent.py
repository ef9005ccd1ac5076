"""Networks with a state that goes from one element of a sequence to the next."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from exploy.codegen.operation import Operation
from exploy.codegen.operators.elementwise import require_floats, suffix
from exploy.codegen.operators.products import multiply, packed, vector_panels
from exploy.codegen.operators.registry import writes
from exploy.codegen.step_writer import StepWriter
from exploy.codegen.values import Constant, Value, View

_ACTIVATIONS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@writes("LSTM")
def write_lstm(step: StepWriter, operation: Operation) -> Sequence[Value]:
    """Long short-term memory."""
    if operation.optional(7) is not None:
        raise operation.refused("with peepholes")
    if operation.attribute("input_forget", 0):
        raise operation.refused("with input_forget")
    network = _Network(step, operation)
    hidden_state, cell_state = network.state(5), network.state(6)
    gates = network.sums(4)
    for layer in network.layers():
        row = network.products_with_inputs(layer, layer.input_bias + layer.state_bias)
        h, c = network.own(hidden_state, layer), network.own(cell_state, layer)
        statements = [
            network.product(layer.state_weights, h, row, step.pointer(gates)),
            network.call("lstm_cell", step.pointer(gates), h, c),
        ]
        network.run(layer, statements, h)
    return network.output, hidden_state, cell_state


@writes("GRU")
def write_gru(step: StepWriter, operation: Operation) -> Sequence[Value]:
    """Gated recurrent units, with the reset gate after or before the product with the state."""
    network = _Network(step, operation)
    state = network.state(5)
    form = _reset_after_product if operation.attribute("linear_before_reset", 0) else _reset_before_product
    for layer in network.layers():
        h = network.own(state, layer)
        network.run(layer, form(step, network, layer, h), h)
    return network.output, state


@writes("RNN")
def write_rnn(step: StepWriter, operation: Operation) -> Sequence[Value]:
    """Cells that have nothing but a hyperbolic tangent."""
    network = _Network(step, operation)
    state = network.state(5)
    sums = network.sums(1)
    for layer in network.layers():
        row = network.products_with_inputs(layer, layer.input_bias + layer.state_bias)
        h = network.own(state, layer)
        statements = [
            network.product(layer.state_weights, h, row, step.pointer(sums)),
            network.call("rnn_cell", step.pointer(sums), h),
        ]
        network.run(layer, statements, h)
    return network.output, state


@dataclass(frozen=True)
class _Layer:
    """One direction of a layer.

    Args:
        number: Which direction it is.
        is_reversed: Whether it begins at the end of the sequence.
        input_weights: The weights of the inputs, with a column for each gate of each cell.
        state_weights: The weights of the state, likewise.
        input_bias: What is added to the products with the inputs.
        state_bias: What is added to the products with the state.
    """

    number: int
    is_reversed: bool
    input_weights: np.ndarray
    state_weights: np.ndarray
    input_bias: np.ndarray
    state_bias: np.ndarray


class _Network:
    """Writes what all networks of this kind have: products, states, and loops over a sequence.

    Raises:
        LoweringError: For forms that it does not write.
    """

    def __init__(self, step: StepWriter, operation: Operation):
        require_floats(operation, operation.input(0))
        self._step = step
        self._input_weights = operation.known(1, "weights")
        self._state_weights = operation.known(2, "weights")
        self._biases = operation.known(3, "biases") if operation.optional(3) is not None else None
        self._directions = _directions(operation)
        _refuse_forms(operation)
        self._operation = operation
        self._length, self._batch, _ = operation.input(0).shape
        self._hidden = self._state_weights.shape[-1]
        self._x = step.contiguous(operation.input(0))
        self._kind = suffix(self._x)
        sizes = (self._length, len(self._directions), self._batch, self._hidden)
        self.output = step.temporary(sizes, self._x.dtype)

    def layers(self) -> Iterator[_Layer]:
        """All directions."""
        count = self._input_weights.shape[1]
        for number, is_reversed in enumerate(self._directions):
            bias = np.zeros(2 * count, self._x.dtype) if self._biases is None else self._biases[number]
            yield _Layer(
                number,
                is_reversed,
                self._input_weights[number].T,
                self._state_weights[number].T,
                bias[:count],
                bias[count:],
            )

    def state(self, index: int) -> View:
        """The states of all directions, as they are at the start: an operand, or zeros."""
        shape = (len(self._directions), self._batch, self._hidden)
        start = self._operation.optional(index) or Constant(np.zeros(shape, self._x.dtype))
        return self._step.store(start, self._step.temporary(shape, self._x.dtype, "state"))

    def sums(self, gates: int, hint: str = "sums") -> View:
        """Memory for the sums of some gates."""
        return self._step.temporary((gates * self._hidden,), self._x.dtype, hint)

    def own(self, state: View, layer: _Layer) -> str:
        """The state of a direction, inside of the loops."""
        return self._at(state, layer.number * self._batch * self._hidden, (self._entry, self._hidden))

    def products_with_inputs(self, layer: _Layer, bias: np.ndarray) -> str:
        """Write the products of the whole sequence with the weights; returns those of one row, inside of the loops."""
        rows = self._length * self._batch
        result = self._step.temporary((rows, layer.input_weights.shape[1]), self._x.dtype, "of_inputs")
        weights = packed(self._step, Constant(layer.input_weights, self._hint(1)), rows)
        multiply(self._step, rows, self._x, weights, Constant(bias, "bias"), result)
        width = result.shape[1]
        return self._at(result, 0, (self._time(layer), self._batch * width), (self._entry, width))

    def product(self, weights: np.ndarray, x: str, start: str, result: str) -> str:
        """A product of the state with weights, added to something."""
        table = self._step.constant(vector_panels(weights), self._hint(2))
        inner, columns = weights.shape
        function = self._step.kernel(f"multiply_vector_{self._kind}")
        return f"{function}({inner}, {columns}, {x}, {self._step.pointer(table)}, {start}, {result});"

    def call(self, kernel: str, *pointers: str) -> str:
        """A call of a kernel for all cells."""
        return f"{self._step.kernel(f'{kernel}_{self._kind}')}({self._hidden}, {', '.join(pointers)});"

    def run(self, layer: _Layer, statements: Sequence[str], h: str) -> None:
        """Write the statements in loops over the sequence and the batch; each time, the state becomes the output."""
        width = self._batch * self._hidden
        own = self._at(
            self.output,
            layer.number * width,
            (self._time(layer), len(self._directions) * width),
            (self._entry, self._hidden),
        )
        body = [*statements, f"(void)memcpy({own}, {h}, {self._hidden}u * sizeof(*{self.output.buffer.name}));"]
        for name, count in ((self._entry, self._batch), ("t", self._length)):
            if count != 1:
                body = [
                    f"for (int32_t {name} = 0; {name} < {count}; {name}++) {{",
                    *textwrap.indent("\n".join(body), "  ").splitlines(),
                    "}",
                ]
        self._step.emit("\n".join(body))

    def _hint(self, index: int) -> str:
        value = self._operation.input(index)
        return value.hint if isinstance(value, Constant) else "weights"

    @property
    def _entry(self) -> str:
        return "i" if self._batch != 1 else "0"

    def _time(self, layer: _Layer) -> str:
        if self._length == 1:
            return "0"
        return f"({self._length - 1} - t)" if layer.is_reversed else "t"

    def _at(self, view: View, offset: int, *indices: tuple[str, int]) -> str:
        terms = [self._step.pointer(view), *([str(offset)] if offset else [])]
        terms += [f"({index} * {stride})" for index, stride in indices if index != "0"]
        return terms[0] if len(terms) == 1 else f"({' + '.join(terms)})"


def _reset_after_product(step: StepWriter, network: _Network, layer: _Layer, h: str) -> list[str]:
    row = network.products_with_inputs(layer, layer.input_bias)
    bias = step.constant(layer.state_bias, "state_bias")
    of_state = step.pointer(network.sums(3, "of_state"))
    return [
        network.product(layer.state_weights, h, step.pointer(bias), of_state),
        network.call("gru_cell", row, of_state, h),
    ]


def _reset_before_product(step: StepWriter, network: _Network, layer: _Layer, h: str) -> list[str]:
    row = network.products_with_inputs(layer, layer.input_bias + layer.state_bias)
    count = layer.state_weights.shape[0]
    gates, remembered = step.pointer(network.sums(2, "gates")), step.pointer(network.sums(1, "remembered"))
    candidates = step.pointer(network.sums(1))
    return [
        network.product(layer.state_weights[:, : 2 * count], h, row, gates),
        network.call("gru_reset", gates, h, remembered),
        network.product(layer.state_weights[:, 2 * count :], remembered, f"({row} + {2 * count})", candidates),
        network.call("gru_update", gates, candidates, h),
    ]


def _directions(operation: Operation) -> tuple[bool, ...]:
    direction = str(operation.attribute("direction", "forward"))
    if direction not in _DIRECTIONS:
        raise operation.refused(f"with direction {direction!r}")
    return _DIRECTIONS[direction]


def _refuse_forms(operation: Operation) -> None:
    if operation.attribute("layout", 0):
        raise operation.refused("with layout 1")
    if operation.attribute("clip") is not None:
        raise operation.refused("with clip")
    usual = [*_ACTIVATIONS[operation.op_type]] * len(_directions(operation))
    activations = [str(name).lower() for name in operation.attribute("activations", usual)]
    if activations != usual:
        raise operation.refused(f"with activations {', '.join(activations)}")
    if operation.optional(4) is not None:
        lengths = operation.known(4, "lengths of sequences")
        if (lengths != operation.input(0).shape[0]).any():
            raise operation.refused("whose sequences have different lengths")
