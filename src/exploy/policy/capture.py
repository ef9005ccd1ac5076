"""Captures a policy as a Program with one step."""

import re

import torch
from torch import fx

from exploy.capture.graph_module import has_effect
from exploy.capture.program import Program, ProgramInput, ProgramMemory
from exploy.capture.quiet_loggers import quiet_loggers
from exploy.capture.recording import WHERE, plain_torch
from exploy.errors import CaptureError, ExployError, RandomOperatorError
from exploy.live.location import UNKNOWN, is_internal
from exploy.policy.policy import BATCH, Policy, Shape, Tensors

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_ANY_BATCH = 2  # torch treats sizes of 0 and 1 as constants


def capture_policy(policy: Policy, *, dynamic_batch: bool) -> Program:
    """Capture one step of a policy. With a dynamic batch, it works for any number of robots.

    Raises:
        CaptureError: If the step cannot be captured as a graph, or only for a fixed number of robots.
        RandomOperatorError: If it draws random numbers although `policy.is_random` is False.
    """
    generator = torch.Generator().manual_seed(0)
    batch = _ANY_BATCH if dynamic_batch else 1
    examples = {item.name: item.draw(batch, generator) for item in policy.inputs}
    memories = [
        ProgramMemory(state.name, state.input_name, state.output_name, state.initial(batch)) for state in policy.states
    ]
    arguments = (*examples.values(), *(memory.initial for memory in memories))
    axes = {item.name: _axis(item.shape) for item in policy.inputs}
    axes |= {state.input_name: _axis(state.shape) for state in policy.states}
    with plain_torch(), quiet_loggers():
        module = _graph_of(policy, arguments, list(axes.values()) if dynamic_batch else None)
    program = Program(
        module=module,
        inputs=[ProgramInput(name, example) for name, example in examples.items()],
        memories=memories,
        policy_step_outputs=[*policy.outputs, *(memory.output_name for memory in memories)],
        sub_step_outputs=[],
        frozen=[],
        parameter_names={name: name.removeprefix("policy.") for name, _ in _tensors(module)},
        batch_axes={name: axis for name, axis in axes.items() if axis is not None} if dynamic_batch else {},
    )
    if not policy.is_random:
        _require_deterministic(program)
    return program


class _Flat(torch.nn.Module):
    """A policy as a function from tensors to tensors."""

    def __init__(self, policy: Policy):
        super().__init__()
        self.policy = policy

    def forward(self, *tensors: torch.Tensor) -> Tensors:
        count = len(self.policy.inputs)
        outputs, states = self.policy.step(tensors[:count], tensors[count:])
        return (*outputs, *states)


def _graph_of(policy: Policy, arguments: Tensors, axes: list[int | None] | None) -> fx.GraphModule:
    shapes = (
        None if axes is None else (tuple(None if axis is None else {axis: torch.export.Dim(BATCH)} for axis in axes),)
    )
    try:
        with torch.no_grad():
            exported = torch.export.export(_Flat(policy), arguments, dynamic_shapes=shapes, strict=False)
            if any(node.target is torch.ops.higher_order.wrap_with_autocast for node in exported.graph.nodes):
                exported = exported.run_decompositions({})  # the conversions of autocast become operators
    except ExployError:
        raise
    except Exception as error:
        raise CaptureError(_explain(error, axes is not None)) from error
    module = exported.module(check_guards=False)
    assert isinstance(module, fx.GraphModule)
    module.graph.set_codegen(fx.graph.CodeGen())
    module.graph.eliminate_dead_code(is_impure_node=has_effect)
    module.recompile()
    for node in module.graph.nodes:
        node.meta[WHERE] = _line_of(node.meta.get("stack_trace") or "")
    return module


def _axis(shape: Shape) -> int | None:
    return shape.index(BATCH) if BATCH in shape else None


def _tensors(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


def _line_of(stack_trace: str) -> str:
    """The innermost line of a stack trace that is neither in torch nor in the exporter."""
    found = [frame for frame in _FRAME.findall(stack_trace) if not is_internal(frame[0])]
    return "{}:{} (in {})".format(*found[-1]) if found else UNKNOWN


def _explain(error: Exception, dynamic_batch: bool) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    what = f"{_line_of(str(error))}: the policy cannot be captured: {lines[0] if lines else type(error).__name__}"
    advice = (
        "Python code cannot be exported if it branches on values of an observation or converts them to Python "
        "values. Use torch operations such as torch.where()."
    )
    return f"{what} {advice}{' Or use dynamic_batch=False for a fixed number of robots.' if dynamic_batch else ''}"


def _require_deterministic(program: Program) -> None:
    for operator in program.random_operators:
        raise RandomOperatorError(
            f"{operator.where}: the policy draws random numbers ({operator.name}). Export its deterministic form."
        )
