"""What a compiled library needs of a machine: its system, its architecture, and the instructions of its processor."""

import functools
import platform
from pathlib import Path

LEVEL_OF_AVX2, LEVEL_OF_AVX512 = "x86-64-v3", "x86-64-v4"
ANY_PROCESSOR = "any"
_AVX2 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
_AVX512 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_FLAGS_OF_LEVEL = {LEVEL_OF_AVX512: _AVX2 | _AVX512, LEVEL_OF_AVX2: _AVX2}  # the highest first
_INSTRUCTIONS = {LEVEL_OF_AVX512: " (with AVX-512)", LEVEL_OF_AVX2: " (with AVX2)"}
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_CPU_INFO = Path("/proc/cpuinfo")


def system() -> str:
    """The operating system: `linux`, `darwin`, `windows` …"""
    return platform.system().lower()


def architecture() -> str:
    """The architecture, by one name on all systems: `x86_64`, `aarch64` …"""
    found = platform.machine().lower()
    return _ARCHITECTURES.get(found, found)


def levels() -> tuple[str, ...]:
    """The levels that libraries are compiled for and that this processor has, the highest first."""
    return tuple(level for level in _FLAGS_OF_LEVEL if has_level(level))


def instructions(level: str) -> str:
    """What is special about a level, in parentheses; nothing for one that libraries are not compiled for."""
    return _INSTRUCTIONS.get(level, "")


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
