"""The entry point: runs a command, and turns errors into one line and an exit code.

Exit codes: 0 if all is well, 1 where something was found that differs or would, 2 for what could not be done.
"""

import io
import sys
import traceback
from typing import NoReturn

from exploy.errors import ExployError

FOUND, FAILED, INTERRUPTED = 1, 2, 130
DEBUG = "--debug"


def main() -> NoReturn:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the terminal has no µ
    try:
        from exploy.cli.app import app
    except ImportError as error:
        _fail(f"The command line needs more packages ({error}). Install them: pip install 'exploy[cli]'")
    try:
        sys.exit(app(standalone_mode=True))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if DEBUG in sys.argv:
            traceback.print_exc()
        is_known = isinstance(error, ExployError)
        _fail(str(error) if is_known else f"{type(error).__name__}: {error} (unexpected; exploy --debug … shows where)")


def _fail(message: str) -> NoReturn:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(FAILED)


if __name__ == "__main__":
    main()
