"""What an archive of C tells those who load its library: the order of ports, and the machine that it runs on."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from exploy.contract.json_text import parse_json
from exploy.contract.limits import MAX_CONTRACT_BYTES

FILE = "steps.json"
POLICY_STEP, SUB_STEP = "policy_step", "sub_step"


@dataclass(frozen=True)
class StepPorts:
    """The ports of a step, in the order of the arguments of its function."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class LibraryNeeds:
    """A compiled library, and what it needs.

    Args:
        file: The name of its file.
        system: The operating system, as `machine.system()` calls it.
        architecture: The architecture, as `machine.architecture()` calls it.
        level: The level of processors; None if it runs on all of this architecture.
        compiler: What compiled it.
    """

    file: str
    system: str
    architecture: str
    level: str | None
    compiler: str


@dataclass(frozen=True)
class Description:
    """The description in an archive.

    Args:
        name: The name of the program, which its functions start with.
        program: Its digest.
        steps: The policy step, and the sub-step of a program with two rates.
        library: The library; None if there are only sources, which nobody has run.
    """

    name: str
    program: str
    steps: Mapping[str, StepPorts]
    library: LibraryNeeds | None

    def to_json(self) -> str:
        """The document."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, data: bytes) -> "Description":
        """Read the document.

        Raises:
            ValueError, TypeError, KeyError: If it is none.
        """
        document: Any = parse_json(data, MAX_CONTRACT_BYTES)
        steps = {
            name: StepPorts(tuple(map(str, ports["inputs"])), tuple(map(str, ports["outputs"])))
            for name, ports in document["steps"].items()
        }
        if POLICY_STEP not in steps or not set(steps) <= {POLICY_STEP, SUB_STEP}:
            raise ValueError(f"it describes the steps {sorted(steps)}")
        library = None if document["library"] is None else LibraryNeeds(**document["library"])
        return cls(str(document["name"]), str(document["program"]), steps, library)
