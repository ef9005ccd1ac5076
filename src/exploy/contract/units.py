"""Reads units as text into dimensions: `N·m`, `Nm`, `newton metre` and `kg m² s⁻²` are the same.

A unit is a product of factors. A factor is a symbol with an optional SI prefix, or a word, with an optional power.
Products are written with `*`, a dot, `-` or a space; quotients with `/` or `per`; powers with `^`, `**`,
superscripts or plain digits. What the grammar does not know is not guessed.
"""

import re
import unicodedata
from typing import NamedTuple

_LONGEST = 64  # characters; longer texts are not units
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_SPELLINGS = str.maketrans(
    dict.fromkeys("\u22c5\u00b7\u2219\u2022\u2027\u30fb\u00d7\u2217", "*")  # dots, the sign of multiplication
    | dict.fromkeys("\u2212\u2010\u2011\u2013", "-")  # the minus sign, hyphens, a dash
    | dict.fromkeys("\u00f7\u2215\u2044", "/")  # signs of division
    | dict.fromkeys("\u00ba\u02da", "°")  # an ordinal and a ring, used as degree signs
    | {"{": "(", "}": ")", "_": " "}
)
_TOKEN = re.compile(
    r"\s*(?:(?P<power>(?:\*\*|\^)\s*\(?\s*[+-]?\d{1,2}(?!\d)\s*\)?|(?<=[^\W\d])[+-]?\d{1,2}(?![\d.]))"
    r"|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d{1,2})?)|(?P<word>[^\W\d_]+|°[CFK]?|%|‰)"
    r"|(?P<sign>[*/().-]))"
)


class Dimension(NamedTuple):
    """The exponents of length, mass, time, current and angle. A turn, a degree and a radian are angles."""

    length: int = 0
    mass: int = 0
    time: int = 0
    current: int = 0
    angle: int = 0

    def times(self, other: "Dimension", power: int = 1) -> "Dimension":
        """Return the dimension of a product with a power of another unit."""
        return Dimension(*(mine + power * its for mine, its in zip(self, other, strict=True)))


ONE = Dimension()
LENGTH, ANGLE, CURRENT = Dimension(length=1), Dimension(angle=1), Dimension(current=1)
MASS, TIME, VOLUME = Dimension(mass=1), Dimension(time=1), Dimension(length=3)
FREQUENCY = Dimension(time=-1)
FORCE = Dimension(1, 1, -2)
TORQUE = Dimension(2, 1, -2)
POWER = Dimension(2, 1, -3)
PRESSURE = Dimension(-1, 1, -2)
VOLTAGE = Dimension(2, 1, -3, -1)
_SPEED, _ANGULAR_SPEED = Dimension(1, 0, -1), Dimension(0, 0, -1, 0, 1)

_PREFIXES = ("da", "p", "n", "µ", "μ", "u", "m", "c", "d", "h", "k", "M", "G", "T")
_PREFIX_WORDS = ("pico", "nano", "micro", "milli", "centi", "deci", "hecto", "kilo", "mega", "giga")
_PREFIXED_SYMBOLS = {
    "m": LENGTH, "g": MASS, "s": TIME, "A": CURRENT, "rad": ANGLE, "deg": ANGLE, "Hz": FREQUENCY,
    "N": FORCE, "Nm": TORQUE, "Pa": PRESSURE, "bar": PRESSURE, "V": VOLTAGE, "W": POWER, "rpm": _ANGULAR_SPEED,
}  # fmt: skip
_SYMBOLS = _PREFIXED_SYMBOLS | {
    "%": ONE, "‰": ONE, "°": ANGLE, "rev": ANGLE, "r": ANGLE, "rot": ANGLE, "grad": ANGLE, "gon": ANGLE,
    "arcmin": ANGLE, "arcsec": ANGLE, "in": LENGTH, "ft": LENGTH, "Ncm": TORQUE, "Nmm": TORQUE, "sec": TIME,
    "min": TIME, "h": TIME, "hr": TIME, "l": VOLUME, "L": VOLUME, "lbf": FORCE, "kgf": FORCE, "ozf": FORCE,
    "kp": FORCE, "psi": PRESSURE, "hp": POWER, "mps": _SPEED, "kph": _SPEED, "mph": _SPEED, "rps": _ANGULAR_SPEED,
    "dps": _ANGULAR_SPEED, "RPM": _ANGULAR_SPEED, "RPS": _ANGULAR_SPEED,
}  # fmt: skip
_WORDS = {
    "metre": LENGTH, "meter": LENGTH, "inch": LENGTH, "foot": LENGTH, "feet": LENGTH, "gram": MASS, "second": TIME,
    "minute": TIME, "hour": TIME, "ampere": CURRENT, "amp": CURRENT, "radian": ANGLE, "degree": ANGLE, "turn": ANGLE,
    "revolution": ANGLE, "rotation": ANGLE, "cycle": ONE, "hertz": FREQUENCY, "newton": FORCE, "pascal": PRESSURE,
    "volt": VOLTAGE, "watt": POWER, "litre": VOLUME, "liter": VOLUME, "knot": _SPEED, "percent": ONE,
    "one": ONE, "none": ONE, "unitless": ONE, "dimensionless": ONE, "normalized": ONE, "normalised": ONE, "ratio": ONE,
}  # fmt: skip
_MISTAKEN = ("nm", "Mm", "rads", "degs")
"""Read as nanometre, megametre and plurals, but often meant as newton metre, millimetre and a rate."""


def dimension_of(unit: str) -> Dimension | None:
    """Return the dimension of a unit; that of a number for `%`, `1`, `-` and an empty text; None if it is not known."""
    if len(unit) > _LONGEST:
        return None
    text = _RAISED.sub(lambda found: f"^({found[0].translate(_SUPERSCRIPTS)})", unit)
    text = unicodedata.normalize("NFKC", text.translate(_SPELLINGS)).translate(_SPELLINGS).strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1].strip()
    if text in ("", "-"):
        return ONE
    tokens = _tokens(text) if len(text) <= _LONGEST else None
    if tokens is None:
        return None
    try:
        found = _product(tokens)
    except (IndexError, KeyError):
        return None
    return found if not tokens else None


def _tokens(text: str) -> list[tuple[str, str]] | None:
    """Split a unit into tokens with their kinds, in reverse; None if a part of it is no token."""
    tokens, position = [], 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            return None
        tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
        position = found.end()
    return tokens[::-1]


def _product(tokens: list[tuple[str, str]]) -> Dimension:
    """Read factors up to the end or a closing bracket; raise KeyError or IndexError for anything else."""
    total, is_divided = _factor(tokens), False
    while tokens and tokens[-1] != ("sign", ")"):
        kind, text = tokens[-1]
        if text == "per" or (kind == "sign" and text != "("):
            tokens.pop()
        power = -1 if text in ("/", "per") else 1
        if is_divided and power > 0:
            raise KeyError(text)  # rad/s*s: people read this in two ways
        is_divided = is_divided or power < 0
        total = total.times(_factor(tokens), power)
    return total


def _factor(tokens: list[tuple[str, str]]) -> Dimension:
    kind, text = tokens.pop()
    if kind == "number":
        found = ONE
    elif kind == "word":
        found = _symbol(text)
    elif (kind, text) == ("sign", "("):
        found = _product(tokens)
        if tokens.pop() != ("sign", ")"):
            raise KeyError(text)
    else:
        raise KeyError(text)
    while tokens and (tokens[-1][0] == "power" or tokens[-1][1] in ("squared", "cubed")):
        kind, text = tokens.pop()
        power = {"squared": 2, "cubed": 3}.get(text) or int(re.sub(r"[*^()\s]", "", text))
        found = ONE.times(found, power)
    return found


def _symbol(text: str) -> Dimension:
    """Return the dimension of a symbol or word; raise KeyError if it is not known, or often used for another one."""
    if text in _MISTAKEN:
        raise KeyError(text)
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    found = [symbol for symbol in _PREFIXED_SYMBOLS if text.endswith(symbol) and text.removesuffix(symbol) in _PREFIXES]
    if found:
        return _PREFIXED_SYMBOLS[found[0]]
    word = text.lower()
    for prefix in ("", *_PREFIX_WORDS):
        stem = word.removeprefix(prefix)
        for name in (stem, stem.removesuffix("s"), stem.removesuffix("es")):
            if word.startswith(prefix) and name in _WORDS:
                return _WORDS[name]
    if len(word) > 2 and word in ("rad", "deg", "rev", "rot", "rpm", "sec", "min"):
        return _SYMBOLS[word]
    raise KeyError(text)
