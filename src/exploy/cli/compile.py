"""`exploy compile`: writes an ONNX file as C, compiles it, and runs its self-test."""

from pathlib import Path

import typer
from rich.console import Console

from exploy.atomic_write import replacing
from exploy.cli.console import output
from exploy.cli.exit_codes import INCOMPLETE
from exploy.contract import Contract
from exploy.errors import BackendError, OutputPathError
from exploy.runtime.model_file import ModelFile
from exploy.text import for_rich

_ARCHIVE = ".c.zip"


def run(path: Path, target: Path | None, unpack: bool, name: str | None, as_numbers: bool) -> None:
    """Build and write. Exits with 3 if nothing was compared: without a compiler, or without a trace.

    Args:
        path: The ONNX file.
        target: An archive, if its name ends as those do, or a folder; by default, next to the file.
        unpack: Write a folder.
        name: The name of the program; that of the archive, or for a folder of the ONNX file, if None.
        as_numbers: Write weights as numbers however many there are.

    Raises:
        ExployError: If the file cannot be read, written as C or compiled, or its library computes other values than
            torch. Nothing is written then.
    """
    target = target or path.with_name(path.name.removesuffix(".onnx") + ("" if unpack else _ARCHIVE))
    is_archive = _is_archive(target, unpack)
    file = ModelFile.load(path)
    file.require_onnx("Compiling")
    try:
        from exploy.codegen.build import build
        from exploy.codegen.compilers import find_compiler
    except ImportError as error:
        raise BackendError(
            f"Compiling needs the packages onnx and onnx-ir, but not torch ({error}). Install them: pip install onnx "
            "onnx-ir"
        ) from None
    console = output()
    compiler = find_compiler()
    stem = name or (target.name.removesuffix(_ARCHIVE) if is_archive else path.name.removesuffix(".onnx"))
    with console.status("compiling and running the self-test"):
        built = build(file.data, file.contract, stem, compiler, outline=file.outline, as_numbers=as_numbers)
    if is_archive:
        with replacing(target) as temporary:
            temporary.write_bytes(built.archive)
    else:
        _write_folder(target, built.files())
    sizes = {name: len(data) for name, data in built.files().items()}
    _print(console, f"{target}: {', '.join(f'{name} {_size(size)}' for name, size in sizes.items())}")
    if built.library is not None:
        level = f" for {built.library.level}" if built.library.level else ""
        _print(console, f"compiled by {built.library.compiler}{level} in {built.library.seconds:.1f} s")
    if fixed := _open_sizes(file.contract):
        _print(console, f"for one robot: {', '.join(fixed)}, which an ONNX file leaves open, became 1")
    _print_selftest(console, built.sources.program.name, built.library is not None, built.ticks)


def _is_archive(target: Path, unpack: bool) -> bool:
    is_archive = target.name.endswith(_ARCHIVE)
    if is_archive and unpack:
        raise OutputPathError(f"--unpack writes a folder, and {target} is the name of an archive. Name a folder.")
    if not is_archive and target.exists() and not target.is_dir():
        raise OutputPathError(f"{target} is a file. Name an archive, such as policy{_ARCHIVE}, or a folder.")
    return is_archive


def _open_sizes(contract: Contract) -> list[str]:
    ports = (*contract.inputs, *contract.outputs)
    return list(dict.fromkeys(size for port in ports for size in port.shape if isinstance(size, str)))


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        with replacing(folder / name, durable=False) as temporary:
            temporary.write_bytes(data)


def _print_selftest(console: Console, name: str, is_compiled: bool, ticks: int) -> None:
    if ticks:
        console.print(f"[green]agrees[/]: {ticks} ticks of the trace give the same results as torch.", highlight=False)
        return
    if is_compiled:
        _print(console, "not compared: the file has no trace, so nothing tells whether the library is right.")
    else:
        _print(
            console,
            "not compiled: there is no compiler of C here (cc, gcc, clang, or pip install ziglang). Nobody has run the "
            f"self-test of these sources. Where you compile them, call {name}_selftest() before you use them.",
        )
    raise typer.Exit(INCOMPLETE)


def _size(size: int) -> str:
    return f"{size / 1024:.1f} KiB" if size < 2**20 else f"{size / 2**20:.1f} MiB"


def _print(console: Console, text: str) -> None:
    console.print(for_rich(text), highlight=False, soft_wrap=True)
