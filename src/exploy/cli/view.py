"""`exploy view`: shows the graph in the browser."""

import time
from pathlib import Path

from exploy.cli.console import output
from exploy.errors import ViewError
from exploy.runtime.model_file import ModelFile
from exploy.text import for_rich


def run(path: Path, port: int, browser: bool) -> None:
    """Serve the graph until Ctrl-C.

    Raises:
        ContractError: If it is not an exported file.
        ViewError: If Netron is not installed, or cannot use the port.
    """
    try:
        import netron
    except ImportError as error:
        raise ViewError(f"Viewing needs Netron ({error}). Install it: pip install 'exploy[view]'") from None
    ModelFile.load(path).require_onnx("Viewing")
    try:
        host, number = netron.start(str(path), address=("localhost", port) if port else None, browse=browser)
    except OSError as error:
        raise ViewError(f"Cannot use port {port}: {error}. Choose another port with --port.") from None
    text = f"Serving {path} at http://{host}:{number}; press Ctrl-C to stop."
    output().print(for_rich(text), highlight=False, soft_wrap=True)
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        netron.stop((host, number))
