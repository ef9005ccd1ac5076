"""A program lowered by a backend, ready to be written to a file."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from exploy.backends.interface import Interface
from exploy.contract import Contract


class Artifact(ABC):
    """A lowered program.

    Args:
        interface: The inputs and outputs of the program.
        opset: Version of the ONNX operators, for ONNX files.
        ir_version: Version of the ONNX file format, for ONNX files.
    """

    def __init__(self, interface: Interface, opset: int | None = None, ir_version: int | None = None):
        self.interface = interface
        self.opset = opset
        self.ir_version = ir_version

    @abstractmethod
    def file(self, contract: Contract, metadata: Mapping[str, str]) -> bytes:
        """The bytes of the sealed file.

        Args:
            contract: The contract of the file, without a digest.
            metadata: The documented metadata keys including the contract, for formats with their own metadata.

        Raises:
            LoweringError: If the program cannot be written.
        """

    def debug_files(self) -> dict[str, bytes]:
        """Additional files for viewing, by the suffix of their name."""
        return {}
