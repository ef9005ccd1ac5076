"""Short summary of a file for the terminal."""

from exploy.contract import Contract

_MAX_LISTED = 5


def frozen_line(contract: Contract) -> str | None:
    """One line that lists the constants of the file that were not declared; None if there are none."""
    frozen = [item for item in contract.frozen if item.declared is None]
    if not frozen:
        return None
    listed = ", ".join(f"{item.name} {list(item.shape)}" for item in frozen[:_MAX_LISTED])
    more = f" and {len(frozen) - _MAX_LISTED} more" if len(frozen) > _MAX_LISTED else ""
    return (
        f"Stored as constants with the current value: {listed}{more}. If a value changes, register it as an Input or "
        "Memory. If not, declare it with add_constant()."
    )


def summary(contract: Contract) -> str:
    """The ports and frozen values of a file, one per line."""
    groups = (("in", contract.inputs), ("out", contract.outputs), ("frozen", contract.frozen))
    return "\n".join(
        f"  {kind:6} {item.name:40} {item.dtype:8} {list(item.shape)}" for kind, items in groups for item in items
    )
