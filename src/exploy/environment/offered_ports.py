"""What environments of a framework offer, which know the ports of robots by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class OfferedPort:
    """A component that an environment can register by itself.

    Attributes:
        kind: "input", "memory" or "output".
        name: Its full name.
        instead: The names of those that can be registered in its place, if the user has the choice.
    """

    kind: str
    name: str
    instead: tuple[str, ...] = ()


@runtime_checkable
class OffersPorts(Protocol):
    """An environment with a table of ports."""

    def offered_ports(self) -> Sequence[OfferedPort]:
        """What the pipeline uses and is not registered yet, and all Outputs."""

    def add_ports(self, *names: str) -> None:
        """Register ports of the table by their names."""
