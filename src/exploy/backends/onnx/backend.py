"""The backend for onnxruntime: one ONNX file with both steps in an `If`, or with one rate."""

from collections.abc import Mapping

import onnx_ir as ir

from exploy.backends.artifact import Artifact
from exploy.backends.backend import Backend
from exploy.backends.interface import Interface, Tensor
from exploy.backends.onnx.file import serialize
from exploy.backends.onnx.joined_steps import JoinedSteps, join_steps
from exploy.backends.onnx.lowering import PLACES, lower
from exploy.backends.onnx.one_step import name_ports
from exploy.backends.onnx.random_numbers import seed_random_nodes
from exploy.backends.onnx.versions import IR_VERSION, OPSET_VERSION, versions_for
from exploy.capture.program import Program
from exploy.contract import Contract
from exploy.runtime.onnx.file import seal
from exploy.runtime.onnx.steps import OnnxExecution


class OnnxBackend(OnnxExecution, Backend):
    """Writes `.onnx` files.

    Args:
        opset_version: Version of the ONNX operators.
        ir_version: Version of the ONNX file format.
        seed: Seed of the random numbers. None for different numbers in each session.
        target_onnxruntime: The onnxruntime release on the robot, such as "1.20". The opset and IR version are lowered
            to versions that it supports.

    Raises:
        LoweringError: If that release does not support a requested version.
    """

    suffix = ".onnx"

    def __init__(
        self,
        opset_version: int = OPSET_VERSION,
        ir_version: int = IR_VERSION,
        seed: int | None = None,
        target_onnxruntime: str | None = None,
    ):
        self.opset_version, self.ir_version = versions_for(target_onnxruntime, opset_version, ir_version)
        self.seed = seed

    def lower(self, program: Program, decimation: int | None) -> "OnnxArtifact":
        """Lower a program.

        Raises:
            LoweringError: If an operator has no ONNX form, or the graph cannot be expressed in the opset.
        """
        model = lower(program, self.opset_version, self.ir_version)
        places = model.meta[PLACES]
        seed_random_nodes(model, self.seed)
        if decimation is None:
            name_ports(model, program)
            return OnnxArtifact(model, _interface(model), places)
        steps = join_steps(model, program, decimation)
        return OnnxArtifact(steps.model, _interface(steps.model), places, steps)


class OnnxArtifact(Artifact):
    """An ONNX model, and its two steps as plain graphs for viewing.

    Args:
        model: The model.
        interface: Its ports.
        places: The line of the user's code that a node comes from, by the name of the node without that of its step.
        steps: The two steps.
    """

    def __init__(
        self, model: ir.Model, interface: Interface, places: Mapping[str, str], steps: JoinedSteps | None = None
    ):
        super().__init__(interface, model.graph.opset_imports[""], model.ir_version)
        self.places = places
        self._model = model
        self._steps = steps

    def file(self, contract: Contract, metadata: Mapping[str, str]) -> bytes:
        """The bytes of the model with its metadata."""
        self._model.metadata_props.update(metadata)
        return seal(serialize(self._model))

    def debug_files(self) -> dict[str, bytes]:
        """The two steps."""
        if self._steps is None:
            return {}
        graphs = {"default": self._steps.policy_step, "process_actions": self._steps.sub_step}
        return {f"_{suffix}.onnx": serialize(model) for suffix, model in graphs.items() if model.graph.outputs}


def _interface(model: ir.Model) -> Interface:
    return Interface(
        inputs=tuple(_tensor(value) for value in model.graph.inputs),
        outputs=tuple(_tensor(value) for value in model.graph.outputs),
    )


def _tensor(value: ir.Value) -> Tensor:
    assert value.name is not None and value.dtype is not None and value.shape is not None
    shape = tuple(size if isinstance(size, int) else str(size.value) for size in value.shape)
    return Tensor(value.name, str(value.dtype.numpy()), shape)
