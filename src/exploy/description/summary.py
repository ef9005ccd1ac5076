"""What a file holds, in a few lines for the terminal."""

from exploy.contract import Contract

_MAX_LISTED = 5


def frozen_line(contract: Contract) -> str | None:
    """One line that says what the file keeps as constants without having been told to; None if there is nothing."""
    frozen = [item for item in contract.frozen if item.declared is None]
    if not frozen:
        return None
    listed = ", ".join(f"{item.name} {list(item.shape)}" for item in frozen[:_MAX_LISTED])
    more = f" and {len(frozen) - _MAX_LISTED} more" if len(frozen) > _MAX_LISTED else ""
    return (
        f"Frozen with the present value: {listed}{more}. Register what moves as an Input or Memory, and declare what "
        "does not with add_constant()."
    )


def summary(contract: Contract) -> str:
    """The ports and frozen values of a file, a line each."""
    groups = (("in", contract.inputs), ("out", contract.outputs), ("frozen", contract.frozen))
    return "\n".join(
        f"  {kind:6} {item.name:40} {item.dtype:8} {list(item.shape)}" for kind, items in groups for item in items
    )
