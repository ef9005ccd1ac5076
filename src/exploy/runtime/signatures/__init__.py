"""Who made a file: detached Ed25519 signatures, and the keys that are trusted."""
