"""A backend from another package: OpenVINO runs ONNX files.

Only this class is needed. A package registers it with an entry point:

    [project.entry-points."exploy.backends"]
    openvino = "openvino_backend:OpenVinoBackend"

Then `exploy.export(env, actor, "policy.onnx", backend="openvino")` writes files for OpenVINO, and `Controller.load()`
runs them. Without a package, call `register()`. As a script, this example exports the environment of the quickstart
for OpenVINO, and compares the file against a file for onnxruntime.
"""

import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from exploy.backends.backend import Backend
from exploy.contract import Contract
from exploy.errors import ContractError
from exploy.runtime import Controller
from exploy.runtime.backends import register
from exploy.runtime.step_runner import Arrays, StepRunner


class OpenVinoBackend(Backend):
    """Writes ONNX files whose contract names OpenVINO as the backend."""

    name = "openvino"
    suffix = ".onnx"

    def lower(self, program: Any, decimation: int | None) -> Any:
        """Lower as for onnxruntime. The import is here because robots have no torch."""
        from exploy.backends.onnx.backend import OnnxBackend

        return OnnxBackend().lower(program, decimation)

    def open_steps(self, data: bytes, contract: Contract, **options: Any) -> tuple[StepRunner, StepRunner]:
        """Compile the file. Policy step and sub-step share one request; the step count input selects the step.

        Raises:
            ContractError: If OpenVINO is not installed, or cannot read the file.
        """
        try:
            import openvino
        except ImportError as error:
            raise ContractError(f"The file needs OpenVINO ({error}). Install it: pip install openvino") from None
        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": options.get("threads", 1), "INFERENCE_PRECISION_HINT": "f32"}
        try:
            request = core.compile_model(core.read_model(data), "CPU", settings).create_infer_request()
        except RuntimeError as error:
            raise ContractError(f"OpenVINO cannot read the file: {error}") from error
        inputs = frozenset(port.name for port in contract.inputs)
        outputs = frozenset(port.name for port in contract.outputs)
        sub_step = outputs if contract.decimation == 1 else outputs & set(contract.sub_step_inputs)
        return OpenVinoPath(request, inputs, outputs), OpenVinoPath(request, inputs, sub_step)


@dataclass(frozen=True)
class OpenVinoPath:
    """A request, its input ports, and the output ports to read from it."""

    request: Any
    inputs: frozenset[str]
    outputs: frozenset[str]

    def bind(self, reads: Arrays, writes: Arrays) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Select the arrays of the ports."""
        return {name: reads[name] for name in self.inputs}, {name: writes[name] for name in self.outputs}

    def run(self, binding: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]) -> None:
        """Compute, and copy the results to the output arrays."""
        reads, writes = binding
        self.request.infer(reads)
        for name, array in writes.items():
            array[...] = self.request.get_tensor(name).data


def main() -> None:
    """Run the pendulum of the quickstart with both runtimes."""
    from quickstart import make  # type: ignore[import-not-found]

    from exploy import export

    register(OpenVinoBackend)
    with tempfile.TemporaryDirectory() as folder:
        env, actor = make()
        files = [export(env, actor, f"{folder}/{name}.onnx", backend=name) for name in ("onnx", "openvino")]
        reference, controller = (Controller.load(file.path) for file in files)
    inputs = {name: np.full(array.shape, 0.1, array.dtype) for name, array in reference.inputs.items()}
    worst = 0.0
    for _ in range(100):
        expected, got = reference.step(inputs), controller.step(inputs)
        worst = max(worst, *(float(np.abs(got[name] - expected[name]).max()) for name in expected))
    print(f"OpenVINO agrees with onnxruntime over 100 ticks: largest difference {worst:.1e}")


if __name__ == "__main__":
    main()
