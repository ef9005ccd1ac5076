"""Makes names of C out of names of ports, tensors and elements."""

import re

# Keywords of C and C++, names of emitted code, and what the headers that are included define.
_TAKEN = frozenset(
    re.split(
        r"\s+",
        """
alignas alignof and and_eq asm atomic auto bitand bitor bool break case catch char class compl concept const consteval
constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit export extern false float
for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
public register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct
switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
wchar_t while xor xor_eq typeof linux unix
in out state memory scratch status ports next main phase
NULL NAN INFINITY abs acos asin atan atan2 ceil cos cosh div erf exp exp2 fabs floor fmax fmin fmod gamma hypot index
isinf isnan j0 j1 jn labs log log2 pow remainder rint round sin sinh sqrt tan tanh tgamma trunc y0 y1 yn memcpy memset
memcmp memmove strcmp strlen signbit isfinite fabsf sqrtf floorf ceilf rintf truncf fmodf copysignf
total best place element
""".strip(),
    )
)
# Headers of the system.
_HEADERS = frozenset(
    re.split(
        r"\s+",
        """
assert complex ctype errno features fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg
stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
""".strip(),
    )
)
# What the header of a program defines, after the name of the program.
_IN_HEADER = re.split(
    r"\s+",
    """
init tick policy_step sub_step selftest contract digest policy_step_at sub_step_at scratch_bytes state_bytes inputs
outputs memory scratch state status
""".strip(),
)
_MACROS = ["H", "DIGEST", "DECIMATION", "TICK_SECONDS", "NO_TRACE"]
_MACROS += ["OK", "INDEX_OUT_OF_RANGE", "BAD_CONVERSION", "DIVISION_BY_ZERO"]
_INDICES = frozenset("ijklmnpqrst")
_LONGEST = 48


def identifier(name: str) -> str:
    """A name that C and C++ take, as near to the given one as possible."""
    plain = re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")[:_LONGEST].rstrip("_") or "value"
    if plain[0].isdigit():
        plain = f"n{plain}"
    return f"{plain}_" if plain in _TAKEN or plain in _INDICES or plain.startswith("exploy_") else plain


def program_name(name: str) -> str:
    """The name of a program: one that C takes, and whose header does not hide one of the system."""
    plain = identifier(name)
    return f"{plain}_" if plain.lower() in _HEADERS else plain


def reserved_names(program: str) -> tuple[str, ...]:
    """The names that the header of a program defines, which tables of its source must not have."""
    return tuple(f"{program}_{name}" for name in _IN_HEADER)


def reserved_macros(program: str) -> tuple[str, ...]:
    """The names that the header of a program defines in capitals, which elements of ports must not have."""
    return tuple(f"{program.upper()}_{name}" for name in _MACROS)


def in_comment(text: str) -> str:
    """Text that does not end a comment, and is plain ASCII."""
    return text.encode("ascii", "backslashreplace").decode().replace("*/", "* /").replace("/*", "/ *")


class Names:
    """Names in one scope, none of which is given twice.

    Args:
        taken: Names that other things have.
    """

    def __init__(self, taken: tuple[str, ...] = ()):
        self._taken = set(taken)

    def give(self, wanted: str) -> str:
        """The name, or the name with a number, if it is taken."""
        plain = identifier(wanted)
        name, number = plain, 1
        while name in self._taken:
            number += 1
            name = f"{plain}_{number}"
        self._taken.add(name)
        return name
