"""The backend for onnxruntime: one ONNX file with both paths under an `If`, or with one rate."""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from exploy.backends.artifact import Artifact
from exploy.backends.backend import Backend
from exploy.backends.interface import Interface, Tensor
from exploy.backends.onnx.file import serialize
from exploy.backends.onnx.lowering import lower
from exploy.backends.onnx.one_path import name_ports
from exploy.backends.onnx.random_numbers import seed_random_nodes
from exploy.backends.onnx.two_paths import TwoPaths, join_paths
from exploy.backends.onnx.versions import IR_VERSION, OPSET_VERSION
from exploy.capture.program import Program
from exploy.contract import Contract
from exploy.runtime.onnx.file import seal
from exploy.runtime.onnx.paths import open_paths
from exploy.runtime.path import Path


class OnnxBackend(Backend):
    """Writes `.onnx` files.

    Args:
        opset_version: Version of the ONNX operators.
        ir_version: Version of the ONNX file format.
        seed: What random numbers start from; None leaves them free.
    """

    name = "onnx"
    suffix = ".onnx"

    def __init__(self, opset_version: int = OPSET_VERSION, ir_version: int = IR_VERSION, seed: int | None = None):
        self.opset_version = opset_version
        self.ir_version = ir_version
        self.seed = seed

    def lower(self, program: Program, decimation: int | None) -> Artifact:
        """Lower a program.

        Raises:
            LoweringError: If an operator has no ONNX form, or the opset cannot be reached.
        """
        model = lower(program, self.opset_version, self.ir_version)
        seed_random_nodes(model, self.seed)
        if decimation is None:
            name_ports(model, program)
            return OnnxArtifact(model, _interface(model))
        paths = join_paths(model, program, decimation)
        return OnnxArtifact(paths.model, _interface(paths.model, paths), paths)

    def open_paths(self, data: bytes, contract: Contract, **options: Any) -> tuple[Path, Path]:
        """Open a file in onnxruntime.

        Raises:
            ContractError: If it cannot be read.
        """
        return open_paths(data, contract, **options)


class OnnxArtifact(Artifact):
    """An ONNX model, and its two paths as plain graphs for viewing."""

    def __init__(self, model: ir.Model, interface: Interface, paths: TwoPaths | None = None):
        super().__init__(interface, model.graph.opset_imports[""], model.ir_version)
        self._model = model
        self._paths = paths

    def file(self, contract: Contract, metadata: Mapping[str, str]) -> bytes:
        """The bytes of the model with its metadata."""
        self._model.metadata_props.update(metadata)
        return seal(serialize(self._model))

    def debug_files(self) -> dict[str, bytes]:
        """The two paths."""
        if self._paths is None:
            return {}
        graphs = {"default": self._paths.default, "process_actions": self._paths.process_actions}
        return {f"_{suffix}.onnx": serialize(model) for suffix, model in graphs.items() if model.graph.outputs}


def _interface(model: ir.Model, paths: TwoPaths | None = None) -> Interface:
    return Interface(
        inputs=tuple(_tensor(value) for value in model.graph.inputs),
        outputs=tuple(_tensor(value) for value in model.graph.outputs),
        unread_memories=frozenset(paths.unread_memories) if paths is not None else frozenset(),
        sub_step_inputs=paths.sub_step_inputs if paths is not None else {},
    )


def _tensor(value: ir.Value) -> Tensor:
    assert value.name is not None and value.dtype is not None and value.shape is not None
    shape = tuple(size if isinstance(size, int) else str(size.value) for size in value.shape)
    return Tensor(value.name, str(value.dtype.numpy()), shape)
