"""Refuses files that were changed after their export."""

from exploy.contract import Contract
from exploy.errors import ContractError


def require_digest(name: str, contract: Contract, found: str) -> None:
    """Refuse a file whose contract has another digest than its contents.

    Raises:
        ContractError: With both digests.
    """
    if contract.digest != found:
        raise ContractError(
            f"{name} was changed after its export: its bytes have the digest {found[:12]}…, its contract says "
            f"{contract.digest[:12]}…. Copy the original again, or export anew."
        )
