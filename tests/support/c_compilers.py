"""The compilers that programs are compiled with in tests, and the flags that must not change a bit."""

import platform
import shutil

import pytest

STRICT = ("-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")  # as docs/c.md asks for
COMPILERS = ("gcc", "clang")
_FAST = ("-O3", "-march=x86-64-v3") if platform.machine() == "x86_64" else ("-O3", "-mcpu=native")
LEVELS = (("-O0",), ("-O3",), _FAST)


def require_tool(name: str) -> str:
    """Skip the test if a program is not installed. Returns its name."""
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}")
    return name
