"""Prints the coefficients of the polynomials in src/exploy/codegen/kernels/, and the bits of 2/pi.

python -m tools.kernel_coefficients [NAME]

Each polynomial is a weighted least-squares fit on Chebyshev nodes. The coefficients are rounded one after the other,
lowest order first, and what is left is fitted again.
"""

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath  # type: ignore[import-untyped]
from mpmath import mpf

mpmath.mp.prec = 200

Function = Callable[[mpf], mpf]
_QUARTER = mpmath.pi / 4 * mpf("1.0001")
_HALF_LN2 = mpmath.log(2) / 2 * mpf("1.0001")
_SQRT2 = mpmath.sqrt(2)


@dataclass(frozen=True)
class Fit:
    """A polynomial in `variable(x)` that is near `function(x)` for x from `low` to `high`.

    `weight` makes an error of the polynomial an error of the result, relative to it.
    """

    name: str
    low: mpf
    high: mpf
    count: int
    function: Function
    weight: Function
    variable: Function = lambda x: x


def _square(x: mpf) -> mpf:
    return x * x


def _exp_tail(x: mpf) -> mpf:
    return (mpmath.expm1(x) - x) / x**2


def _log_tail(x: mpf) -> mpf:
    return 2 * (mpmath.atanh(x) - x) / x**3


def _erfcx(x: mpf) -> mpf:
    return mpmath.erfc(x) * mpmath.exp(x * x)


def _pow_tail(x: mpf) -> mpf:
    return (2 * (mpmath.atanh(x) - x - x**3 / 3) / x**5 - mpf(2) / 5) / x**2


_S = 3 - 2 * _SQRT2  # s = f / (2 + f) is at most this, with 1 + f between sqrt(1/2) and sqrt(2)
_TINY = mpf(2) ** -20

_FITS = [
    Fit("exp_f32", -_HALF_LN2, _HALF_LN2, 6, _exp_tail, lambda x: x),
    Fit("exp_f64", -_HALF_LN2, _HALF_LN2, 11, _exp_tail, lambda x: x),
    Fit("log_f32", _TINY, _S, 4, _log_tail, _square, _square),
    Fit("log_f64", _TINY, _S, 7, _log_tail, _square, _square),
    Fit("pow_f64", _TINY, _S, 7, _pow_tail, lambda x: x**6, _square),
    Fit("sin_f32", _TINY, _QUARTER, 3, lambda x: (mpmath.sin(x) - x) / x**3, _square, _square),
    Fit("sin_f64", _TINY, _QUARTER, 6, lambda x: (mpmath.sin(x) - x) / x**3, _square, _square),
    Fit("cos_f32", _TINY, _QUARTER, 3, lambda x: (mpmath.cos(x) - 1 + x**2 / 2) / x**4, lambda x: x**4, _square),
    Fit("cos_f64", _TINY, _QUARTER, 6, lambda x: (mpmath.cos(x) - 1 + x**2 / 2) / x**4, lambda x: x**4, _square),
    Fit("asin_f64", _TINY, mpf("0.5001"), 12, lambda x: (mpmath.asin(x) - x) / x**3, _square, _square),
    Fit("atan_f64", _TINY, mpf("0.41422"), 11, lambda x: (mpmath.atan(x) - x) / x**3, _square, _square),
    Fit("erf_f32", _TINY, mpf("0.9"), 6, lambda x: mpmath.erf(x) / x - 1, lambda x: mpf(1), _square),
    Fit("erf_f64", _TINY, mpf(1), 13, lambda x: mpmath.erf(x) / x - 1, lambda x: mpf(1), _square),
    Fit("erfc_f32", mpf("0.9"), mpf(4), 8, lambda x: mpmath.log(mpmath.erfc(x)), mpmath.erfc),
    Fit(
        "erfc_f64",
        mpf(1),
        mpf(6),
        14,
        _erfcx,
        lambda x: mpmath.exp(-x * x),
        lambda x: (x - 2) / (x + 2),
    ),
]


def _rounded(value: mpf, kind: str) -> float:
    """The nearest float32 or float64, as a float."""
    number = float(value)
    return float(struct.unpack("f", struct.pack("f", number))[0]) if kind == "f32" else number


def _solve(powers: list[list[mpf]], wanted: list[mpf]) -> list[mpf]:
    """The least-squares solution."""
    return list(mpmath.qr_solve(mpmath.matrix(powers), mpmath.matrix(wanted))[0])


def coefficients(fit: Fit) -> tuple[list[float], float]:
    """The coefficients, lowest order first, and the largest weighted error."""
    count = 4 * fit.count
    angles = [mpmath.pi * (2 * i + 1) / (2 * count) for i in range(count)]
    nodes = [(fit.low + fit.high) / 2 + (fit.high - fit.low) / 2 * mpmath.cos(angle) for angle in angles]
    weights = [fit.weight(x) for x in nodes]
    powers = [[w * fit.variable(x) ** i for i in range(fit.count)] for x, w in zip(nodes, weights, strict=True)]
    left = [w * fit.function(x) for x, w in zip(nodes, weights, strict=True)]
    found: list[float] = []
    for i in range(fit.count):
        found.append(_rounded(_solve([row[i:] for row in powers], left)[0], fit.name[-3:]))
        left = [value - row[i] * mpf(found[i]) for value, row in zip(left, powers, strict=True)]
    return found, float(max(abs(value) for value in left))


def two_over_pi(words: int) -> list[int]:
    """The first bits of 2/pi after the point, in words of 32 bits, most significant first."""
    with mpmath.workprec(32 * words + 64):
        bits = int(mpmath.floor(2 / mpmath.pi * mpf(2) ** (32 * words)))
    return [(bits >> (32 * (words - 1 - i))) & 0xFFFFFFFF for i in range(words)]


def parts(value: mpf, bits: list[int]) -> list[float]:
    """A sum of floats with so many bits each, which is near the value."""
    found: list[float] = []
    for count in bits:
        step = mpf(2) ** (mpmath.floor(mpmath.log(abs(value), 2)) + 1 - count)
        found.append(float(mpmath.nint(value / step) * step))
        value -= mpf(found[-1])
    return found


def main() -> None:
    """Print all coefficients, or those of the name given."""
    for fit in _FITS:
        if sys.argv[1:] and fit.name not in sys.argv[1:]:
            continue
        found, error = coefficients(fit)
        print(f"{fit.name}: error at most 2**{float(mpmath.log(error, 2)):.1f}")
        print("  " + ", ".join(value.hex() + ("f" if fit.name.endswith("f32") else "") for value in found))
    if not sys.argv[1:]:
        constants = {"pi/2": mpmath.pi / 2, "pi/4": mpmath.pi / 4, "pi": +mpmath.pi, "ln 2": mpmath.log(2)}
        constants |= {"log2(e)": 1 / mpmath.log(2), "2/pi": 2 / mpmath.pi, "2/3": mpf(2) / 3, "sqrt(1/2)": 1 / _SQRT2}
        for name, value in constants.items():
            for bits in ([24], [16, 16, 24], [53, 53], [33, 33, 33, 53], [42, 53]):
                print(f"{name} in {bits} bits: " + ", ".join(part.hex() for part in parts(value, bits)))
        print("2/pi: " + ", ".join(f"0x{word:08x}" for word in two_over_pi(40)))


if __name__ == "__main__":
    main()
