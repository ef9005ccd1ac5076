"""The package as a whole: what importing it costs, and what it ships."""

import ast
import importlib.resources
import re
import subprocess
import sys
from pathlib import Path

import pytest

import exploy

FUNCTIONS = {"export", "evaluate", "replay", "discover", "explain", "sweep", "substitute"}  # some are to come
HEAVY = {"torch", "onnx", "onnx_ir", "onnxscript", "rich"}


def run_python(code: str) -> str:
    """What a fresh interpreter prints."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize(
    "module", ["exploy", "exploy.runtime", "exploy.contract", "exploy.runtime.onnx.session", "exploy.backends.backend"]
)
def test_what_runs_on_a_robot_imports_neither_torch_nor_onnx(module: str) -> None:
    code = f"import {module}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    imported = set(run_python(code).split())
    assert "exploy" in imported
    assert not imported & HEAVY


def test_the_runtime_does_without_torch_and_onnx_where_they_are_not_installed() -> None:
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({sorted(HEAVY)}))\n"
        "import exploy.runtime.onnx.session, exploy.contract, exploy.errors\n"
        "print('imported')"
    )
    assert run_python(code).strip() == "imported"


def test_importing_exploy_alone_does_not_even_import_numpy() -> None:
    assert run_python("import exploy, sys; print('numpy' in sys.modules)").strip() == "False"


def test_the_package_says_that_it_is_typed() -> None:
    assert importlib.resources.files("exploy").joinpath("py.typed").is_file()


def test_the_version_is_a_string_of_numbers() -> None:
    assert isinstance(exploy.__version__, str)
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", exploy.__version__)


def imports_of(path: Path) -> set[str]:
    """The modules that a file names in its import statements, wherever these stand."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def test_nothing_inside_imports_the_root_package() -> None:
    root = Path(exploy.__file__).parent
    modules = [path for path in root.rglob("*.py") if path != root / "__init__.py"]
    assert len(modules) > 100
    assert [path for path in modules if "exploy" in imports_of(path)] == []


def test_no_module_hides_a_function_that_the_root_offers() -> None:
    names = {path.stem for path in Path(exploy.__file__).parent.iterdir()}
    assert "runtime" in names and not names & (FUNCTIONS | set(exploy.__all__))


def test_the_exporter_only_passes_on_what_others_hold() -> None:
    for path in (Path(exploy.__file__).parent / "exporter").rglob("*.py"):
        statements = ast.parse(path.read_text(encoding="utf-8")).body
        assert all(isinstance(item, ast.ImportFrom | ast.Assign | ast.Expr) for item in statements), path
