"""What a compiled library needs of a machine: its system, its architecture, and the instructions of its processor."""

import functools
import platform
from pathlib import Path

LEVEL_OF_AVX2 = "x86-64-v3"
_FLAGS_OF_LEVEL = {LEVEL_OF_AVX2: {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}}
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_CPU_INFO = Path("/proc/cpuinfo")


def system() -> str:
    """The operating system: `linux`, `darwin`, `windows` …"""
    return platform.system().lower()


def architecture() -> str:
    """The architecture, by one name on all systems: `x86_64`, `aarch64` …"""
    found = platform.machine().lower()
    return _ARCHITECTURES.get(found, found)


def best_level() -> str | None:
    """The highest level that libraries are compiled for and that this processor has; None if it has none."""
    return next((level for level in _FLAGS_OF_LEVEL if has_level(level)), None)


def has_level(level: str) -> bool:
    """Return whether this processor has all instructions of a level; False if nothing tells."""
    wanted = _FLAGS_OF_LEVEL.get(level)
    return wanted is not None and wanted <= _flags()


@functools.cache
def _flags() -> frozenset[str]:
    try:
        lines = _CPU_INFO.read_text().splitlines()
    except OSError:
        return frozenset()
    line = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())
