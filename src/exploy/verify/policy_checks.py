"""The check of every exported policy file: against the policy itself."""

from collections.abc import Set

import numpy as np
import torch

from exploy.comparison import difference
from exploy.contract import PortKind
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import ExployError, PolicyError, VerificationError
from exploy.policy.policy import Policy, PolicyInput, Tensors
from exploy.runtime.controller import Controller
from exploy.runtime.guards.guards import Guards
from exploy.runtime.model_file import ModelFile
from exploy.verify.export_checks import TOLERANCE, verify_controller

_STEPS = 8
_BATCHES = (1, 2, 5)


def verify_against_policy(policy: Policy, data: bytes, random_outputs: Set[str], precision: float) -> None:
    """Run the file in the robot controller and compare it with the policy, on random observations.

    A file with a dynamic batch size is run with several batch sizes.

    Args:
        policy: The policy, in evaluation mode.
        data: The bytes of the file.
        random_outputs: Outputs that depend on random numbers. They are not compared.
        precision: The relative resolution of the floats in the policy.

    Raises:
        VerificationError: If an output or a memory differs; the message names it.
        ContractError: If the controller cannot load the file.
    """
    verify_controller(data)
    is_open = any(isinstance(size, str) for port in ModelFile.parse(data).contract.inputs for size in port.shape)
    for batch in _BATCHES if is_open else _BATCHES[:1]:
        _verify_at(policy, data, batch, random_outputs, max(TOLERANCE, 10 * precision))


def require_working_policy(policy: Policy) -> None:
    """Raise if a policy cannot be computed, or has NaN weights or outputs.

    Raises:
        PolicyError: With the names of the NaN tensors, or the error that a step raised.
    """
    tensors = [*policy.named_parameters(), *policy.named_buffers()]
    lost = [name for name, value in tensors if value.is_floating_point() and bool(value.isnan().any())]
    if lost:
        raise PolicyError(f"The policy has weights that are NaN: {', '.join(lost[:6])}.")
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(item.draw(1, generator) for item in policy.inputs)
    shapes = ", ".join(f"{item.name} {list(value.shape)}" for item, value in zip(policy.inputs, inputs, strict=True))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            outputs, _ = policy.step(inputs, tuple(state.initial(1) for state in policy.states))
    except ExployError:
        raise
    except Exception as error:
        raise PolicyError(
            f"The policy cannot be computed from {shapes} in single precision: {type(error).__name__}: {error}"
        ) from error
    wrong = [name for name, value in zip(policy.outputs, outputs, strict=True) if bool(value.isnan().any())]
    if wrong:
        raise PolicyError(f"The policy returns NaN in {', '.join(wrong)} for {shapes}.")


def _verify_at(policy: Policy, data: bytes, batch: int, random_outputs: Set[str], rtol: float) -> None:
    file = ModelFile.parse(data, may_run_code=True)  # it was just made here
    controller = Controller(file, guards=Guards.off(), sizes={"batch": batch} if batch > 1 else {})
    generator = torch.Generator().manual_seed(1)
    states: Tensors = tuple(state.initial(batch) for state in policy.states)
    for step in range(_STEPS):
        inputs = tuple(_input(item, batch, generator, step) for item in policy.inputs)
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            outputs, states = policy.step(inputs, states)
        fed = {item.name: to_numpy(value) for item, value in zip(policy.inputs, inputs, strict=True)}
        got = controller.step({name: value for name, value in fed.items() if name in controller.inputs})
        for name, value in zip(policy.outputs, outputs, strict=True):
            if name not in random_outputs:
                _compare(name, to_numpy(value), got[name], step, rtol)


def _input(item: PolicyInput, batch: int, generator: torch.Generator, step: int) -> torch.Tensor:
    """A random value, or the value that the controller sets itself."""
    value = item.draw(batch, generator)
    return torch.full_like(value, step == 0) if item.kind == PortKind.IS_INIT else value


def _compare(name: str, expected: np.ndarray, got: np.ndarray, step: int, rtol: float) -> None:
    found = difference(expected, got, TOLERANCE, rtol, by_largest=True)
    if found is not None:
        raise VerificationError(
            f"The file does not agree with the policy: output {name!r}, {found} (step {step}). Nothing was written. "
            "Possible reasons: Python state that the policy changes, or an operator that computes something different "
            "in ONNX."
        )
