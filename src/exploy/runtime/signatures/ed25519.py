"""The one place that imports `cryptography`, which is the extra `exploy[sign]`."""

from typing import Any

from exploy.errors import SignatureError


def load_ed25519() -> tuple[Any, Any]:
    """Return the modules of `cryptography` for Ed25519 keys and for their files.

    Raises:
        SignatureError: If cryptography is not installed.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise SignatureError(
            f"Signatures need the package cryptography ({error}). Install it: pip install 'exploy[sign]'"
        ) from None
    return ed25519, serialization


def is_valid(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether a signature of a message was made with the private key of a public key.

    Raises:
        SignatureError: If cryptography is not installed.
    """
    ed25519, _ = load_ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
