"""`exploy keys new` and `exploy sign`: who made a file."""

from pathlib import Path

from rich.markup import escape

from exploy.cli.console import output
from exploy.runtime.signatures.signature import SUFFIX
from exploy.runtime.signing import new_key, public_path, sign_file


def run_new_key(path: Path, name: str | None, passphrase: str | None) -> None:
    """Make a key pair and print what to do with it.

    Raises:
        ExployError: If a file exists or cannot be written, or cryptography is not installed.
    """
    key = new_key(path, name, passphrase)
    for line in (
        f"{path}: the private key. Keep it to yourself.",
        f"{public_path(path)}: the public key {key.id} of {key.name!r}. Copy it to the machines that trust you.",
    ):
        output().print(escape(line), highlight=False, soft_wrap=True)


def run_sign(path: Path, key: Path, name: str | None, passphrase: str | None) -> None:
    """Sign a file and print the result.

    Raises:
        ExployError: If the file or the key cannot be used, or the signature cannot be written.
    """
    statement = sign_file(path, key, name, passphrase)
    output().print(escape(f"{path}{SUFFIX}: signed by {statement}."), highlight=False, soft_wrap=True)
