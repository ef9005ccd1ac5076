"""Writes the header of a program, for people who write the robot's loop in C or C++."""

from collections.abc import Sequence

from exploy.codegen import scratch
from exploy.codegen.c_types import c_type
from exploy.codegen.names import Names, in_comment, reserved_macros
from exploy.codegen.program import Program
from exploy.codegen.step_source import PortField
from exploy.contract import Port


def header_text(program: Program, digest: str) -> str:
    """The text of `NAME.h`.

    Args:
        program: The program.
        digest: What the library and the contract have as well.
    """
    name, upper = program.name, program.name.upper()
    return f"""\
/* {name}.h: a policy as C, made by exploy. No allocation, no globals: one {name}_state for each robot.
 *
 *   {name}_state state;
 *   {name}_inputs in;
 *   {name}_outputs out;
 *   {name}_init(&state);
 *   for (;;) {{ fill in; if ({name}_tick(&state, &in, &out) != {upper}_OK) {{ stop the robot; }} use out; }}
 */
#ifndef {upper}_H
#define {upper}_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_DIGEST "{digest}"
#define {upper}_DECIMATION {program.contract.decimation} /* ticks in a policy step */
{_rate(program)}
typedef enum {{
  {upper}_OK = 0,
  {upper}_INDEX_OUT_OF_RANGE = 1, /* an index is outside of its table */
  {upper}_BAD_CONVERSION = 2, /* a number does not fit an integer */
  {upper}_DIVISION_BY_ZERO = 3 /* of integers */
}} {name}_status;

#define {upper}_NO_TRACE (-1) /* what {name}_selftest() returns if there is nothing to compare */

{_elements(program)}/* What the robot gives. */
typedef struct {{
{_ports(program, program.inputs)}
}} {name}_inputs;

/* What the robot gets. A sub-step leaves what it does not compute as it was. */
typedef struct {{
{_ports(program, program.outputs)}
}} {name}_outputs;

/* What is kept from tick to tick. */
typedef struct {{
{_memories(program)}
}} {name}_memory;

/* For intermediate results. Nothing in it is kept. */
typedef struct {{
{_scratch(program)}
}} {name}_scratch;

/* Everything that a robot needs between ticks. Its fields are for reading; {name}_init() sets them. */
typedef struct {{
  {name}_memory memory;
  {name}_memory next;
  int32_t phase; /* of the next tick; 0 runs the policy */
  bool is_first; /* whether the next tick is the first after {name}_init() */
  {name}_scratch scratch;
}} {name}_state;

/* Set the state that an episode starts from. */
void {name}_init({name}_state *state);

/* Compute a tick: the policy step if it is due, else the sub-step. With a status other than OK, the state is as before,
 * and the outputs must not be used. */
{name}_status {name}_tick({name}_state *state, const {name}_inputs *in, {name}_outputs *out);

/* The same for programs that count ticks themselves. With one rate, both are the same. */
{name}_status {name}_policy_step({name}_state *state, const {name}_inputs *in, {name}_outputs *out);
{name}_status {name}_sub_step({name}_state *state, const {name}_inputs *in, {name}_outputs *out);

/* Compute the stored ticks and compare them with what torch computed: 0, or the number of the first tick that differs,
 * counted from 1, or {upper}_NO_TRACE. The state is as after {name}_init(). In {name}_selftest.c. */
int32_t {name}_selftest({name}_state *state);

/* What the file says about itself, as JSON, and the digest of the program. In {name}_contract.c. */
const char *{name}_contract(void);
const char *{name}_digest(void);

/* For loaders: the steps with pointers to their ports, as listed in steps.json, and last to the scratch memory. */
int32_t {name}_policy_step_at(void *const *ports);
{f"int32_t {name}_sub_step_at(void *const *ports);" if "sub_step" in program.steps else ""}
size_t {name}_scratch_bytes(void);
size_t {name}_state_bytes(void);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _rate(program: Program) -> str:
    if program.contract.sim_dt is None:
        return ""
    return f"#define {program.name.upper()}_TICK_SECONDS {program.contract.sim_dt!r}\n"


def _elements(program: Program) -> str:
    """Enumerations of the elements that have names, such as joints."""
    taken = Names(reserved_macros(program.name))
    parts = []
    for port in (*program.inputs, *program.outputs):
        if port.names is None:
            continue
        field = program.ports[port.name].field
        names = [taken.give(f"{program.name}_{field}_{item}".upper()) for item in port.names]
        lines = [f"  {item} = {index}" for index, item in enumerate(names)]
        parts.append(f"/* Elements of {in_comment(port.name)}. */\nenum {{\n" + ",\n".join(lines) + "\n};\n\n")
    return "".join(parts)


def _ports(program: Program, ports: tuple[Port, ...]) -> str:
    lines = []
    for port in ports:
        told = [text for text in (port.unit, port.frame and f"in {port.frame}") if text]
        lines.append(_field(program.ports[port.name], program.ports[port.name].field, port.name, told))
    return "\n".join(lines) or "  uint8_t none;"


def _memories(program: Program) -> str:
    return "\n".join(_field(item.output, item.field, item.name) for item in program.memories) or "  uint8_t none;"


def _field(item: PortField, field: str, name: str, told: Sequence[str] = ()) -> str:
    note = ", ".join([f"{name} {list(item.shape)}", *told])
    return f"  {item.c_type} {field}[{max(1, item.size)}]; /* {in_comment(note)} */"


def _scratch(program: Program) -> str:
    lines = [
        f"  {c_type(dtype).name} {scratch.field_of(dtype)}[{length}];" for dtype, length in program.scratch.items()
    ]
    return "\n".join(lines) or "  uint8_t none;"
