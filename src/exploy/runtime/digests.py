"""Rejects files that were changed after their export."""

from exploy.contract import Contract
from exploy.errors import ContractError


def require_digest(name: str, contract: Contract, found: str) -> None:
    """Check that the digest in a file's contract matches its contents.

    Raises:
        ContractError: If it does not. The message has both digests.
    """
    if contract.digest != found:
        raise ContractError(
            f"{name} was changed after its export: its bytes have the digest {found[:12]}…, but its contract has "
            f"{contract.digest[:12]}…. Copy the original again, or export it again."
        )
