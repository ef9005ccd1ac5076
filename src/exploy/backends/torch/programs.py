"""Splits a program into the policy step and the sub-step, each as an exported program of torch."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram

from exploy.backends.interface import Interface
from exploy.backends.torch.maker_traces import forget_origin
from exploy.capture.program import Program
from exploy.capture.quiet_loggers import quiet_loggers
from exploy.capture.recording import plain_torch
from exploy.errors import LoweringError
from exploy.runtime.pt2.steps import POLICY_STEP, SUB_STEP


@dataclass(frozen=True)
class StepProgram:
    """One step: an exported program with the names of its inputs and outputs."""

    exported: ExportedProgram
    inputs: list[str]
    outputs: list[str]


def step_programs(program: Program, interface: Interface) -> dict[str, StepProgram]:
    """The policy step and, if it has outputs, the sub-step.

    Raises:
        LoweringError: If torch cannot export them.
    """
    outputs = {item.name for item in interface.outputs}
    default = [name for name in program.policy_step_outputs if name in outputs]
    sub_step = [name for name in program.sub_step_outputs if name in outputs]
    programs = {POLICY_STEP: _step(program, default, is_sub_step=False)}
    return programs | ({SUB_STEP: _step(program, sub_step, is_sub_step=True)} if sub_step else {})


def _step(program: Program, outputs: list[str], *, is_sub_step: bool) -> StepProgram:
    sources = program.sources[is_sub_step]
    read = {name for output in outputs for name in sources[output].inputs}
    inputs = [name for name in program.input_names if name in read]
    first = len(program.policy_step_outputs) if is_sub_step else 0
    names = program.sub_step_outputs if is_sub_step else program.policy_step_outputs
    module = _Part(program, inputs, [first + names.index(name) for name in outputs])
    examples = tuple(program.examples[name] for name in inputs)
    shapes: Any = (
        tuple(
            {program.batch_axes[name]: torch.export.Dim("batch")} if name in program.batch_axes else None
            for name in inputs
        ),
    )
    try:
        with plain_torch(), quiet_loggers(), torch.no_grad():
            exported = torch.export.export(module, examples, dynamic_shapes=shapes if program.batch_axes else None)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise LoweringError(f"torch cannot export the captured program: {reason}") from error
    forget_origin(exported)
    return StepProgram(exported, inputs, outputs)


class _Part(torch.nn.Module):
    """Computes some results of a program from the inputs they depend on. Other inputs get example values."""

    def __init__(self, program: Program, inputs: list[str], results: list[int]):
        super().__init__()
        self.program = program.module
        self._inputs = inputs
        self._examples = program.examples
        self._results = results

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = self._examples | dict(zip(self._inputs, tensors, strict=True))
        results = self.program(*values.values())
        return tuple(results[position] for position in self._results)
