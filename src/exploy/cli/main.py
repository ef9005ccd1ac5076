"""The entry point: runs a command, and converts errors to one line and an exit code (see `exit_codes`)."""

import io
import sys
import traceback
import warnings
from typing import NoReturn, TextIO

from exploy.cli.exit_codes import FAILED, INTERRUPTED
from exploy.errors import ExployError, ExployWarning
from exploy.text import printable

DEBUG = "--debug"


def main() -> NoReturn:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # the terminal may not support µ
    warnings.showwarning = _print_warning
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
        _fail(str(error) if is_known else f"{type(error).__name__}: {error} (unexpected; exploy --debug … shows more)")


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print exploy warnings in one line, and other warnings in Python's format."""
    if issubclass(category, ExployWarning):
        print(f"warning: {printable(str(message), lines=True)}", file=sys.stderr)
    else:
        print(warnings.formatwarning(message, category, filename, lineno, line), end="", file=sys.stderr)


def _fail(message: str) -> NoReturn:
    print("error: " + printable(" ".join(message.split())), file=sys.stderr)
    sys.exit(FAILED)


if __name__ == "__main__":
    main()
