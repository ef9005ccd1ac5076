"""Writes the C file of a program: kernels, small tables, the two steps, and the functions of the header."""

import itertools
import textwrap

from exploy.codegen.kernel_files import kernel_text
from exploy.codegen.names import in_comment
from exploy.codegen.number_tables import declaration, definition
from exploy.codegen.program import POLICY_STEP, SUB_STEP, Program
from exploy.codegen.step_source import PortField, StepSource
from exploy.codegen.tables import Table


def source_text(program: Program) -> str:
    """The text of `NAME.c`."""
    name = program.name
    small = [definition(table, "static ") for table in program.tables if table.is_small]
    large = [f"extern {declaration(table)};" for table in program.tables if not table.is_small]
    parts = [
        f"/* {name}.c: the policy step and the sub-step of {name}. Made by exploy; see {name}.h. */",
        f'#include "{name}.h"\n#include <math.h>\n#include <stddef.h>\n#include <string.h>',
        "/* ---- mathematics */" if program.kernels else "",
        kernel_text(program.kernels),
        "/* ---- constants */" if small or large else "",
        "\n".join(large),
        "\n".join(small),
        "/* ---- steps */",
        *(_function(program, kind, step) for kind, step in program.steps.items()),
        "/* ---- the functions of the header */",
        _initialization(program),
        *(_public_step(program, kind, step) for kind, step in program.steps.items()),
        _sub_step_of_one_rate(program),
        _tick(program),
        *(_at(program, kind, step) for kind, step in program.steps.items()),
        _sizes(program),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _function(program: Program, kind: str, step: StepSource) -> str:
    arguments = [_parameter(item, "const ") for item in step.inputs]
    arguments += [_parameter(item, "") for item in step.outputs]
    arguments.append(f"{program.name}_scratch *restrict scratch")
    title = "The policy step" if kind == POLICY_STEP else "The sub-step"
    unused = "" if step.scratch else "  (void)scratch;\n"
    status = "  int32_t status = 0;\n" if step.uses_status else ""
    body = textwrap.indent("\n".join(step.body), "  ")
    result = "status" if step.uses_status else "0"
    return (
        f"/* {title}. */\nstatic int32_t compute_{kind}(\n"
        + textwrap.indent(",\n".join(arguments), "    ")
        + f")\n{{\n{unused}{status}{body}\n  return {result};\n}}"
    )


def _parameter(item: PortField, qualifier: str) -> str:
    return f"{qualifier}{item.c_type} *restrict {item.field} /* {in_comment(item.name)} {list(item.shape)} */"


def _initialization(program: Program) -> str:
    name = program.name
    lines = []
    tables = []
    for memory in program.memories:
        if not memory.start.any() and memory.start.tobytes() == bytes(memory.start.nbytes):
            continue
        table = Table(f"start_of_{memory.field}", memory.start.reshape(-1).copy())
        tables.append(definition(table, "static "))
        lines.append(
            f"  (void)memcpy(state->memory.{memory.field}, {table.name}, sizeof state->memory.{memory.field});"
        )
    return "\n".join(tables) + (
        f"void {name}_init({name}_state *state)\n{{\n"
        "  (void)memset(state, 0, sizeof *state);\n"
        + "".join(f"{line}\n" for line in lines)
        + "  state->is_first = true;\n}"
    )


def _public_step(program: Program, kind: str, step: StepSource) -> str:
    name, decimation = program.name, program.contract.decimation
    by_input = {memory.input: memory for memory in program.memories}
    by_output = {memory.output.name: memory for memory in program.memories}
    given = {port.name for port in program.inputs}
    lines, arguments, kept = [], [], []
    for item in step.inputs:
        if item.name in by_input:
            arguments.append(f"state->memory.{by_input[item.name].field}")
        elif item.name in program.step_counts:
            lines.append(
                f"const {item.c_type} phase = ({item.c_type}){'0' if kind == POLICY_STEP else 'state->phase'};"
            )
            arguments.append("&phase")
        elif item.name in program.firsts:
            arguments.append("&state->is_first")
        else:
            assert item.name in given
            arguments.append(f"in->{item.field}")
    for item in step.outputs:
        if item.name in by_output:
            field = by_output[item.name].field
            arguments.append(f"state->next.{field}")
            kept.append(f"(void)memcpy(state->memory.{field}, state->next.{field}, sizeof state->memory.{field});")
        else:
            arguments.append(f"out->{item.field}")
    arguments.append("&state->scratch")
    if not any(argument.startswith("in->") for argument in arguments):
        lines.append("(void)in;")
    if not any(argument.startswith("out->") for argument in arguments):
        lines.append("(void)out;")
    call = f"const int32_t status = compute_{kind}(\n    {', '.join(arguments)});"
    following = "1" if kind == POLICY_STEP else "state->phase + 1"
    advance = f"state->phase = ({following}) % {decimation};" if decimation > 1 else ""
    kept += [line for line in (advance, "state->is_first = false;") if line]
    body = [*lines, call, "if (status == 0) {", *(f"  {line}" for line in kept), "}", f"return ({name}_status)status;"]
    return (
        f"{name}_status {name}_{kind}({name}_state *state, const {name}_inputs *in, {name}_outputs *out)\n{{\n"
        + textwrap.indent("\n".join(body), "  ")
        + "\n}"
    )


def _sub_step_of_one_rate(program: Program) -> str:
    if SUB_STEP in program.steps:
        return ""
    name = program.name
    return (
        f"{name}_status {name}_sub_step({name}_state *state, const {name}_inputs *in, {name}_outputs *out)\n{{\n"
        f"  return {name}_policy_step(state, in, out);\n}}"
    )


def _tick(program: Program) -> str:
    name = program.name
    call = f"{name}_policy_step(state, in, out)"
    if program.contract.decimation > 1:
        call = f"(state->phase == 0) ? {call} : {name}_sub_step(state, in, out)"
    return (
        f"{name}_status {name}_tick({name}_state *state, const {name}_inputs *in, {name}_outputs *out)\n{{\n"
        f"  return {call};\n}}"
    )


def _at(program: Program, kind: str, step: StepSource) -> str:
    place = itertools.count()
    arguments = [f"(const {item.c_type} *)ports[{next(place)}]" for item in step.inputs]
    arguments += [f"({item.c_type} *)ports[{next(place)}]" for item in step.outputs]
    arguments.append(f"({program.name}_scratch *)ports[{next(place)}]")
    return (
        f"int32_t {program.name}_{kind}_at(void *const *ports)\n{{\n  return compute_{kind}(\n"
        + textwrap.indent(",\n".join(arguments), "      ")
        + ");\n}"
    )


def _sizes(program: Program) -> str:
    name = program.name
    return (
        f"size_t {name}_scratch_bytes(void)\n{{\n  return sizeof({name}_scratch);\n}}\n\n"
        f"size_t {name}_state_bytes(void)\n{{\n  return sizeof({name}_state);\n}}"
    )
