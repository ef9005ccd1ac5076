"""A program in the form of one backend, about to become a file."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from exploy.backends.interface import Interface
from exploy.contract import Contract


class Artifact(ABC):
    """A lowered program.

    Args:
        interface: What it takes and gives.
        opset: Version of the ONNX operators, where there are such.
        ir_version: Version of the ONNX file format, likewise.
    """

    def __init__(self, interface: Interface, opset: int | None = None, ir_version: int | None = None):
        self.interface = interface
        self.opset = opset
        self.ir_version = ir_version

    @abstractmethod
    def file(self, contract: Contract, metadata: Mapping[str, str]) -> bytes:
        """The bytes of the file, sealed.

        Args:
            contract: What the file says about itself, without a digest.
            metadata: The documented keys, the contract among them; for formats that have metadata of their own.

        Raises:
            LoweringError: If it cannot be written.
        """

    def debug_files(self) -> dict[str, bytes]:
        """Files for viewing, by the suffix of their name."""
        return {}
