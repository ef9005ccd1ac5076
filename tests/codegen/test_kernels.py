"""The functions of mathematics in emitted files: right to a few units in the last place, and the same bits everywhere.

The kernels are compiled by gcc, and judged by the functions of the C library for `long double`.
"""

import ctypes
import functools
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from exploy.codegen.kernel_files import kernel_text
from exploy.runtime.c import machine

# What each function of x, or of x and y, is in terms of the C library.
REFERENCES = {
    "exp": "expl(x)",
    "expm1": "expm1l(x)",
    "log": "logl(x)",
    "log1p": "log1pl(x)",
    "sin": "sinl(x)",
    "cos": "cosl(x)",
    "tan": "tanl(x)",
    "asin": "asinl(x)",
    "acos": "acosl(x)",
    "atan": "atanl(x)",
    "sinh": "sinhl(x)",
    "cosh": "coshl(x)",
    "tanh": "tanhl(x)",
    "asinh": "asinhl(x)",
    "acosh": "acoshl(x)",
    "atanh": "atanhl(x)",
    "erf": "erfl(x)",
    "sigmoid": "1 / (1 + expl(-x))",
    "softplus": "x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x))",
    "gelu": "0.5L * x * erfcl(-x * 0.707106781186547524400844362104849039L)",
    "elu": "x > 0 ? x : y * expm1l(x)",
    "pow": "powl(x, y)",
    "fmod": "fmodl(x, y)",
    "floor_mod": "floor_mod(x, y)",
}
WITH_TWO_ARGUMENTS = ("elu", "pow", "fmod", "floor_mod")
# The largest error, in units of the last place of the result; for gelu, which cancels, in those of x.
BOUNDS_F32 = {
    **dict.fromkeys(REFERENCES, 0.51),
    **dict.fromkeys(["exp", "log", "sin", "cos"], 1.0),
    **dict.fromkeys(["log1p", "erf", "gelu"], 1.5),
    **dict.fromkeys(["expm1", "softplus", "elu"], 1.8),
    **dict.fromkeys(["tanh", "sigmoid"], 2.5),
    "fmod": 0,
}
BOUNDS_F64 = {
    **dict.fromkeys(REFERENCES, 2.0),
    **dict.fromkeys(["exp", "log", "sin", "cos", "asin", "acos", "pow"], 1.0),
    **dict.fromkeys(["tan", "sinh", "acosh", "tanh", "sigmoid"], 2.5),
    "floor_mod": 0.51,
    "fmod": 0,
}
BOUNDS = {"f32": BOUNDS_F32, "f64": BOUNDS_F64}
TYPES: dict[str, type[np.floating]] = {"f32": np.float32, "f64": np.float64}
NAMES = {"f32": "float", "f64": "double"}
CASES = [(name, kind) for kind in TYPES for name in REFERENCES]

INF, NAN, PI = math.inf, math.nan, math.pi
# Results at inf, -inf, 0 and -0.
RESULTS = {
    "exp": (INF, 0.0, 1.0, 1.0),
    "expm1": (INF, -1.0, 0.0, -0.0),
    "log": (INF, NAN, -INF, -INF),
    "log1p": (INF, NAN, 0.0, -0.0),
    "sin": (NAN, NAN, 0.0, -0.0),
    "cos": (NAN, NAN, 1.0, 1.0),
    "tan": (NAN, NAN, 0.0, -0.0),
    "asin": (NAN, NAN, 0.0, -0.0),
    "acos": (NAN, NAN, PI / 2, PI / 2),
    "atan": (PI / 2, -PI / 2, 0.0, -0.0),
    "sinh": (INF, -INF, 0.0, -0.0),
    "cosh": (INF, INF, 1.0, 1.0),
    "tanh": (1.0, -1.0, 0.0, -0.0),
    "asinh": (INF, -INF, 0.0, -0.0),
    "acosh": (INF, NAN, NAN, NAN),
    "atanh": (NAN, NAN, 0.0, -0.0),
    "erf": (1.0, -1.0, 0.0, -0.0),
    "sigmoid": (1.0, 0.0, 0.5, 0.5),
    "softplus": (INF, 0.0, math.log(2), math.log(2)),
    "gelu": (INF, NAN, 0.0, -0.0),  # as in torch: -inf * 0 is NaN
    "elu": (INF, -1.0, 0.0, -0.0),
}
# Results of two arguments.
RESULTS_OF_TWO = {
    "pow": [
        (NAN, 0.0, 1.0),
        (INF, -0.0, 1.0),
        (1.0, NAN, 1.0),
        (1.0, -INF, 1.0),
        (-1.0, INF, 1.0),
        (-1.0, -INF, 1.0),
        (NAN, 1.0, NAN),
        (2.0, NAN, NAN),
        (-2.0, 0.5, NAN),
        (-2.0, 3.0, -8.0),
        (-2.0, -2.0, 0.25),
        (-2.0, 1e30, INF),
        (0.0, -3.0, INF),
        (-0.0, -3.0, -INF),
        (-0.0, -2.0, INF),
        (-0.0, -INF, INF),
        (-0.0, 3.0, -0.0),
        (-0.0, 2.0, 0.0),
        (-0.0, 0.5, 0.0),
        (0.5, INF, 0.0),
        (0.5, -INF, INF),
        (-2.0, INF, INF),
        (-2.0, -INF, 0.0),
        (INF, 2.0, INF),
        (INF, -1.0, 0.0),
        (-INF, 3.0, -INF),
        (-INF, 2.0, INF),
        (-INF, 0.5, INF),
        (-INF, -3.0, -0.0),
        (-INF, -2.0, 0.0),
    ],
    "fmod": [
        (-7.5, 2.0, -1.5),
        (7.5, -2.0, 1.5),
        (-4.0, 2.0, -0.0),
        (1.0, 0.0, NAN),
        (INF, 2.0, NAN),
        (-3.0, INF, -3.0),
    ],
    "floor_mod": [
        (-7.5, 2.0, 0.5),
        (7.5, -2.0, -0.5),
        (-4.0, 2.0, 0.0),
        (4.0, -2.0, -0.0),
        (1.0, 0.0, NAN),
        (INF, 2.0, NAN),
        (NAN, 2.0, NAN),
        (3.0, INF, 3.0),
        (-3.0, INF, INF),
    ],
    "elu": [(-INF, 2.0, -2.0), (3.0, 2.0, 3.0), (3.0, -2.0, 3.0), (-0.0, 2.0, -0.0), (NAN, 2.0, NAN)],
}

SYSTEM_HEADERS = "".join(
    f"#include <{name}.h>\n" for name in ("float", "math", "stdbool", "stddef", "stdint", "string")
)
WARNINGS = [
    f"-W{name}"
    for name in (
        "all",
        "extra",
        "conversion",
        "sign-conversion",
        "double-promotion",
        "shadow",
        "unused-function",
        "error",
    )
]
FASTER = [["-O3", f"-march={level}", "-mprefer-vector-width=512"] for level in machine.levels()]
COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"needs {name}"))
    for name in ("gcc", "clang")
]
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


def loop(name: str, kind: str) -> str:
    """A kernel, and a function that calls it for all elements of arrays."""
    real, call = NAMES[kind], f"exploy_{name}_{kind}(x[i]{', y[i]' * (name in WITH_TWO_ARGUMENTS)})"
    head = f"void {name}_{kind}(size_t n, const {real} *restrict x, const {real} *restrict y, {real} *restrict z)"
    body = f"(void)y;\n  for (size_t i = 0; i < n; i++) {{\n    z[i] = {call};\n  }}"
    return f"{head};\n{head}\n{{\n  {body}\n}}\n"


def judge(name: str, kind: str) -> str:
    """A function that replaces results by their errors: infinity where one that is not a usual number is wrong."""
    real = NAMES[kind]
    digits, lowest = ("FLT_MANT_DIG", -149) if kind == "f32" else ("DBL_MANT_DIG", -1074)
    return f"""
void {name}_{kind}(size_t n, const {real} *x_, const {real} *y_, {real} *z)
{{
  for (size_t i = 0; i < n; i++) {{
    const long double x = x_[i], y = y_[i], wanted = {REFERENCES[name]};
    int place;
    (void)y;
    frexpl({"x" if name == "gelu" else "wanted"}, &place);
    place = place - {digits} < {lowest} ? {lowest} : place - {digits};
    if (isnan(z[i]) || isnan(wanted)) {{
      z[i] = isnan(z[i]) && isnan(wanted) ? 0 : ({real})INFINITY;
    }} else if (isinf(z[i]) || isinf(({real})wanted) || wanted == 0) {{
      z[i] = z[i] == ({real})wanted && !signbit(z[i]) == !signbit(wanted) ? 0 : ({real})INFINITY;
    }} else {{
      z[i] = ({real})(fabsl(z[i] - wanted) / ldexpl(1, place));
    }}
  }}
}}
"""


FLOOR_MOD = """
static long double floor_mod(long double x, long double y)
{
  const long double rest = fmodl(x, y);
  return rest == 0 ? copysignl(rest, y) : (rest < 0) != (y < 0) ? rest + y : rest;
}
"""


@functools.cache
def all_loops() -> str:
    names = [f"{name}_{kind}" for name, kind in CASES]
    return SYSTEM_HEADERS + kernel_text(names) + "".join(loop(*case) for case in CASES)


@functools.cache
def arguments(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of all exponents and of those that matter most, and those at which the formulas change."""
    rng = np.random.default_rng(1)
    real: np.dtype[np.floating] = np.dtype(TYPES[kind])
    any_bits = [rng.integers(0, 256, 6000 * real.itemsize, dtype=np.uint8).view(real) for _ in range(2)]
    info = np.finfo(real)
    corners = [0.0, info.smallest_subnormal, info.tiny, info.eps, 0.5, 1.0, 2.0, PI, 1e22, info.max, INF, NAN]
    corners += [0.9, 4.0, 6.0, 10.0, 22.0, 87.3, 88.7, 89.0, 103.9, 104.0, 400.0, 709.7, 710.4, 745.1, 746.0, 1e6]
    near = np.array(corners, real)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond the largest number, and of random bits
        near = np.concatenate([near, np.nextafter(near, real.type(0)), np.nextafter(near, real.type(INF))])
        x = [any_bits[0], rng.normal(size=6000), rng.normal(scale=40, size=6000), rng.uniform(-800, 800, 3000)]
        x += [1 + rng.normal(size=3000) * 2.0 ** rng.uniform(-20, 0, 3000), near, -near]
        y = [any_bits[1], rng.normal(size=6000), rng.integers(-30, 30, 6000) / 2, rng.uniform(-800, 800, 3000)]
        y += [rng.normal(size=3000) * 2.0 ** rng.uniform(0, 20, 3000), rng.integers(-30, 30, 2 * len(near)) / 2]
        return np.concatenate(x).astype(real), np.concatenate(y).astype(real)


def values(library: ctypes.CDLL, name: str, kind: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What a kernel gives for x and y."""
    return apply(library, name, kind, x, y, np.empty_like(x))


def apply(library: ctypes.CDLL, name: str, kind: str, x: np.ndarray, y: np.ndarray, results: np.ndarray) -> np.ndarray:
    pointer = np.ctypeslib.ndpointer(TYPES[kind], flags="C_CONTIGUOUS")
    function = library[f"{name}_{kind}"]
    function.argtypes = [ctypes.c_size_t, pointer, pointer, pointer]
    function.restype = None
    function(len(x), x, y, results)
    return results


def compile_library(folder: Path, source: str, compiler: str, *flags: str) -> ctypes.CDLL:
    (folder / "kernels.c").write_text(source)
    command = [compiler, "-std=c11", "-ffp-contract=off", "-shared", "-fPIC", *flags, "kernels.c", "-o", "kernels.so"]
    subprocess.run([*command, "-lm"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels as gcc compiles them without optimisation."""
    return compile_library(tmp_path_factory.mktemp("plain"), all_loops(), "gcc", "-O0", *WARNINGS)


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("needs a long double of more digits than a double")
    source = SYSTEM_HEADERS + FLOOR_MOD + "".join(judge(*case) for case in CASES)
    return compile_library(tmp_path_factory.mktemp("judges"), source, "gcc", "-O1", "-std=gnu11")


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_results_are_right_to_a_few_units_in_the_last_place(
    plain: ctypes.CDLL, judges: ctypes.CDLL, name: str, kind: str
) -> None:
    x, y = arguments(kind)
    if name == "elu":
        y = np.resize(np.array([1, 0.5, -2], x.dtype), x.shape)
    if name == "gelu":  # at -inf it is NaN, and the formula of the reference is not
        x, y = x[x > -INF], y[x > -INF]
    errors = apply(judges, name, kind, x, y, values(plain, name, kind, x, y))
    worst = int(errors.argmax())
    assert errors[worst] <= BOUNDS[kind][name], f"at {x[worst]!r}, {y[worst]!r}"


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", RESULTS)
def test_infinities_zeros_and_nan_are_those_of_the_c_standard(plain: ctypes.CDLL, name: str, kind: str) -> None:
    x = np.array([INF, -INF, 0.0, -0.0, NAN], TYPES[kind])
    expected = np.array([*RESULTS[name], NAN], TYPES[kind])
    found = values(plain, name, kind, x, np.ones_like(x))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[expected == 0], np.signbit(expected)[expected == 0])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", RESULTS_OF_TWO)
def test_functions_of_two_arguments_have_special_cases(plain: ctypes.CDLL, name: str, kind: str) -> None:
    x, y, expected = np.array(RESULTS_OF_TWO[name], TYPES[kind]).T.copy()
    found = values(plain, name, kind, x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found)[expected == 0], np.signbit(expected)[expected == 0])


def test_underflow_is_gradual(plain: ctypes.CDLL) -> None:
    x = np.linspace(-104, -87, 2001, dtype=np.float32)
    for name in ("exp", "sigmoid", "softplus"):
        found = values(plain, name, "f32", x, x)
        np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=0, atol=2e-45 + 2e-7 * 2.0**-126)
        assert 0 < found[found > 0].min() < 1e-44


@pytest.mark.parametrize("kind", TYPES)
def test_reduction_of_angles_takes_numbers_next_to_multiples_of_a_right_angle(
    plain: ctypes.CDLL, judges: ctypes.CDLL, kind: str
) -> None:
    near = np.arange(1, 20000) * (PI / 2)
    nearest = {"f64": 6381956970095103 * 2.0**797, "f32": 16367173 * 2.0**72}[kind]
    x = np.concatenate([near, near * 2.0**20, [nearest]]).astype(TYPES[kind])
    x = x[np.isfinite(x)]
    for name in ("sin", "cos", "tan"):
        errors = apply(judges, name, kind, x, x, values(plain, name, kind, x, x))
        assert errors.max() <= BOUNDS[kind][name]


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", [["-O1"], ["-O3"], *FASTER], ids=" ".join)
def test_bits_do_not_depend_on_compiler_and_optimisation(
    plain: ctypes.CDLL, tmp_path: Path, compiler: str, flags: list[str]
) -> None:
    other = compile_library(tmp_path, all_loops(), compiler, *flags)
    for name, kind in CASES:
        x, y = arguments(kind)
        found, expected = values(other, name, kind, x, y), values(plain, name, kind, x, y)
        same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | np.isnan(found) & np.isnan(expected)
        assert same.all(), f"{name}_{kind} at {x[~same][0]!r}, {y[~same][0]!r}"


def test_nothing_is_undefined_in_c(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    library = compile_library(tmp_path, all_loops(), "gcc", "-fsanitize=undefined,float-cast-overflow")
    for name, kind in CASES:
        values(library, name, kind, *arguments(kind))
    assert "runtime error" not in capfd.readouterr().err


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_kernel_brings_only_what_it_needs_and_compiles_without_warnings(compiler: str, tmp_path: Path) -> None:
    for name, kind in CASES:
        source = SYSTEM_HEADERS + kernel_text([f"{name}_{kind}"]) + loop(name, kind)
        (tmp_path / f"{name}_{kind}.c").write_text(source)
    command = [compiler, "-std=c11", "-pedantic", *WARNINGS, "-fsyntax-only"]
    done = subprocess.run([*command, *sorted(tmp_path.glob("*.c"))], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
