"""The policy step and the sub-step of a torch file: exported programs, or libraries compiled from them."""

import importlib
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exploy.contract import Contract
from exploy.contract.json_text import parse_json
from exploy.contract.limits import MAX_CONTRACT_BYTES
from exploy.errors import ContractError
from exploy.runtime.execution_backend import ExecutionBackend
from exploy.runtime.file_errors import cause, refused
from exploy.runtime.pt2.contents import require_harmless
from exploy.runtime.step_runner import Arrays, IdleStep, StepRunner

POLICY_STEP, SUB_STEP = "policy_step", "sub_step"
SIGNATURES = "exploy.signatures"


@dataclass(frozen=True)
class TorchStep:
    """A function of tensors that computes one step.

    Args:
        function: Takes all inputs in order and returns all outputs.
        arguments: The ports that it takes.
        results: The ports that it returns.
        torch: The torch package.
    """

    function: Callable[..., Any]
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    torch: Any

    @property
    def inputs(self) -> frozenset[str]:
        """The ports that it reads."""
        return frozenset(self.arguments)

    @property
    def outputs(self) -> frozenset[str]:
        """The ports that it computes."""
        return frozenset(self.results)

    def bind(self, reads: Arrays, writes: Arrays) -> tuple[list[Any], list[Any]]:
        """Create tensors that share the memory of the arrays."""
        view = self.torch.from_numpy
        return [view(reads[name]) for name in self.arguments], [view(writes[name]) for name in self.results]

    def run(self, binding: tuple[Sequence[Any], Sequence[Any]]) -> None:
        """Compute the step and copy the results to the output tensors."""
        arguments, targets = binding
        with self.torch.inference_mode():
            results = self.function(*arguments)
            for target, result in zip(targets, results, strict=True):
                target.copy_(result)


class TorchExecution(ExecutionBackend):
    """Runs `.pt2` files with torch: exported programs, or compiled libraries."""

    name = "torch_export"

    def open_steps(self, data: bytes, contract: Contract, **options: Any) -> tuple[StepRunner, StepRunner]:
        """Open a file in torch; see `open_steps()`."""
        return open_steps(data, contract, **options)


def open_steps(data: bytes, contract: Contract, **options: Any) -> tuple[StepRunner, StepRunner]:
    """Open the policy step and the sub-step of a file; both are the same if there is only one rate.

    Thread options are ignored: torch has one setting for the whole process (`torch.set_num_threads()`).

    Args:
        data: The bytes of the file.
        contract: The contract of the file.
        **options: Not used.

    Raises:
        ContractError: If torch is not installed, or cannot read the file.
    """
    compiled = contract.backend == "aot_inductor"
    with refused("The archive", "read"):
        require_harmless(data, compiled)
    torch = _load_torch()
    try:
        contents = _load(data, contract.backend)
        signatures = parse_json(contents.extra_files[SIGNATURES], MAX_CONTRACT_BYTES)
        programs = contents.aoti_runners if compiled else contents.exported_programs
        steps: list[StepRunner] = []
        for name in (POLICY_STEP, SUB_STEP):
            if name in signatures:
                function = programs[name] if compiled else programs[name].module(check_guards=False)
                signature = signatures[name]
                steps.append(TorchStep(function, tuple(signature["inputs"]), tuple(signature["outputs"]), torch))
    except Exception as error:
        made_with = contract.provenance.versions.get("torch", "of an unknown version")
        raise ContractError(
            f"torch {torch.__version__} cannot load the file: {type(error).__name__}: {error}. It was made with torch "
            f"{made_with}; export it with the torch version that runs it."
        ) from cause(error)
    sub_step = steps[1] if len(steps) > 1 else steps[0] if contract.decimation == 1 else IdleStep()
    return steps[0], sub_step


def _load_torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ContractError(
            f"The file is for torch, which cannot be imported ({error}). Install it (pip install torch), or export for "
            "onnxruntime: backend='onnx'."
        ) from None


def _load(data: bytes, backend: str) -> Any:
    """Load the contents of the archive; torch unpacks libraries into its own folder."""
    package = importlib.import_module("torch.export.pt2_archive._package")
    if backend != "aot_inductor":
        return package.load_pt2(io.BytesIO(data))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.pt2"
        path.write_bytes(data)
        return package.load_pt2(str(path))
