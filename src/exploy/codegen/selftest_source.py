"""Writes the C file that computes the stored ticks of a program and compares them with what torch computed."""

from collections.abc import Mapping, Sequence

import numpy as np

from exploy.codegen.c_types import c_type, literal
from exploy.codegen.program import Program
from exploy.codegen.step_source import PortField
from exploy.contract import GoldenTrace, Port
from exploy.errors import LoweringError

_PER_LINE = 8


def selftest_text(program: Program) -> str:
    """The text of `NAME_selftest.c`. It judges as the self-test of a controller does.

    Raises:
        LoweringError: If the trace is not one of these ports.
    """
    trace = program.contract.trace
    return _without_trace(program.name) if trace is None else _with_trace(program, trace)


def _without_trace(name: str) -> str:
    return f"""\
/* {name}_selftest.c: the file that {name} was made from has no trace, so nothing can be compared. Made by exploy. */
#include "{name}.h"

int32_t {name}_selftest({name}_state *state)
{{
  {name}_init(state);
  return {name.upper()}_NO_TRACE;
}}
"""


def _with_trace(program: Program, trace: GoldenTrace) -> str:
    name = program.name
    given, expected = trace.input_arrays(), trace.output_arrays()
    outputs = [port for port in program.outputs if port.name in expected]
    _require_fit(program, program.inputs, given)
    _require_fit(program, outputs, expected)
    compared = [program.ports[port.name] for port in outputs if program.ports[port.name].size]
    floats = {item.dtype for item in compared if item.dtype.kind == "f"}
    parts = [
        f"/* {name}_selftest.c: {trace.ticks} ticks of {name} as torch computed them. Made by exploy; see {name}.h. */",
        f'#include "{name}.h"\n#include <float.h>\n#include <math.h>\n#include <string.h>',
        f"#define TICKS {trace.ticks}\n#define TOLERANCE {literal(trace.tolerance, np.dtype(np.float64))}",
        _table(program, "inputs", "given", trace.ticks, program.inputs, given),
        _table(program, "outputs", "expected", trace.ticks, outputs, expected),
        *(_comparison(dtype) for dtype in sorted(floats, key=lambda item: item.itemsize)),
        _function(name, compared),
    ]
    return "\n\n".join(parts) + "\n"


def _require_fit(program: Program, ports: Sequence[Port], arrays: Mapping[str, np.ndarray]) -> None:
    fields = {port.name: program.ports[port.name] for port in ports}
    if set(fields) != set(arrays) or any(
        values.shape[1:] != fields[name].shape or values.dtype != fields[name].dtype for name, values in arrays.items()
    ):
        raise LoweringError("The golden trace does not match the ports of the file. Export the file again.")


def _table(
    program: Program, kind: str, name: str, ticks: int, ports: Sequence[Port], arrays: Mapping[str, np.ndarray]
) -> str:
    """The inputs or the outputs of all ticks, as an array of the structs of the header."""
    rows = []
    for tick in range(ticks):
        fields = [(program.ports[port.name].field, arrays[port.name][tick]) for port in ports]
        lines = [f"    .{field} = {_numbers(values)}" for field, values in fields if values.size]
        rows.append(f"  {{ /* tick {tick + 1} */\n" + (",\n".join(lines) or "    0") + "\n  }")
    return f"static const {program.name}_{kind} {name}[TICKS] = {{\n" + ",\n".join(rows) + "\n};"


def _numbers(values: np.ndarray) -> str:
    items = [literal(value, values.dtype) for value in values.reshape(-1)]
    lines = [", ".join(items[start : start + _PER_LINE]) for start in range(0, len(items), _PER_LINE)]
    return "{" + ",\n        ".join(lines) + "}"


def _comparison(dtype: np.dtype) -> str:
    kind = c_type(dtype)
    return f"""\
/* Whether an element is off by more than the tolerance: absolute, and relative to the largest finite one. Two NaN are
 * equal. */
static bool differs_{kind.suffix}(const {kind.name} *wanted, const {kind.name} *got, size_t size)
{{
  double largest = 0.0;
  bool is_off = false;
  for (size_t i = 0; i < size; i++) {{
    const double value = fabs((double)wanted[i]);
    if (value <= DBL_MAX && value > largest) {{
      largest = value;
    }}
  }}
  for (size_t i = 0; i < size; i++) {{
    const double a = (double)wanted[i];
    const double b = (double)got[i];
    const double error = fabs(a - b);
    if (a != b && !(isnan(a) && isnan(b)) && !(error <= TOLERANCE + TOLERANCE * largest && error <= DBL_MAX)) {{
      is_off = true;
    }}
  }}
  return is_off;
}}"""


def _function(name: str, compared: Sequence[PortField]) -> str:
    checks = "".join(f"\n        && {_check(item)}" for item in compared)
    return f"""\
int32_t {name}_selftest({name}_state *state)
{{
  {name}_outputs out;
  int32_t failed = 0;
  (void)memset(&out, 0, sizeof out);
  {name}_init(state);
  for (int32_t tick = 0; tick < TICKS && failed == 0; tick++) {{
    const bool is_good = {name}_tick(state, &given[tick], &out) == {name.upper()}_OK{checks};
    failed = is_good ? 0 : tick + 1;
  }}
  {name}_init(state);
  return failed;
}}"""


def _check(item: PortField) -> str:
    wanted, got = f"expected[tick].{item.field}", f"out.{item.field}"
    if item.dtype.kind == "f":
        return f"!differs_{c_type(item.dtype).suffix}({wanted}, {got}, {item.size})"
    return f"memcmp({wanted}, {got}, sizeof {got}) == 0"
