"""`exploy inspect`: prints the description of a file."""

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from exploy.cli.console import output, print_json
from exploy.cli.exit_codes import FOUND
from exploy.cli.signer import Signer, find_signer
from exploy.contract import Contract
from exploy.contract.formatting import (
    format_elements,
    format_rates,
    format_shape,
    format_substitute,
    format_terms,
    format_values,
)
from exploy.contract.sources import source_notes
from exploy.runtime.model_file import ModelFile
from exploy.text import for_rich


def run(path: Path, as_json: bool) -> None:
    """Print the contract of a file, and who signed it. Exits with 1 if the signature does not fit.

    Raises:
        SignatureError: If trusted keys are given, and none of them has signed the file.
        ContractError: If it is not an exported file, or was modified.
    """
    file = ModelFile.load(path)
    signer = find_signer(path, file)
    if as_json:
        print_json(document(path, file) | {"signature": signer.document()})
    else:
        console = output()
        _print_head(console, path, file, signer)
        print_ports(console, file.contract)
        _print_rest(console, file.contract)
    if signer.misfit is not None:
        raise typer.Exit(FOUND)


def document(path: Path, file: ModelFile) -> dict[str, Any]:
    """The contract without the arrays of its trace, plus path, size, opset and IR version of the file."""
    contract = json.loads(file.contract.to_json())
    if "trace" in contract:
        contract["trace"] = {key: contract["trace"][key] for key in ("ticks", "tolerance")}
    return {
        "file": str(path),
        "bytes": len(file.data),
        "opset": file.contract.provenance.opset,
        "ir_version": file.contract.provenance.ir_version,
        "contract": contract,
    }


def _format(contract: Contract) -> str:
    if contract.backend != "onnx":
        return contract.backend
    return f"opset {contract.provenance.opset}, IR {contract.provenance.ir_version}"


def _print_head(console: Console, path: Path, file: ModelFile, signer: Signer) -> None:
    contract, made = file.contract, file.contract.provenance
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    rows = {
        "file": str(path),
        "size": f"{len(file.data) / 1024:.1f} KiB, {_format(contract)}",
        "rates": format_rates(contract),
        "exported": f"{made.date or 'unknown'} with {versions or 'unknown'}",
        "git": f"{made.git.commit[:12]}{' with uncommitted changes' if made.git.changed else ''}" if made.git else None,
        "source": json.dumps(dict(made.model_source)) if made.model_source else None,
        "digest": f"{contract.digest[:16]}…, valid",
        "signature": str(signer),
        "self-test": f"{contract.trace.ticks} ticks" if contract.trace else "no trace in the file",
    }
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value is not None:
            table.add_row(f"[bold]{name}[/]", for_rich(value))
    console.print(table)


def print_ports(console: Console, contract: Contract) -> None:
    """Print all ports except those of memories, and which inputs a robot does not measure, if the file tells that."""
    console.print(_ports_table(contract))
    for note in source_notes(contract.inputs).values():
        console.print(for_rich(note), highlight=False, soft_wrap=True)


def _ports_table(contract: Contract) -> Table:
    memories = {name for memory in contract.memories for name in (memory.input, memory.output)}
    column = ("source",) if contract.has_sources else ()
    table = Table("", "port", "type", "shape", "kind", "unit", *column, "elements")
    for direction, ports in (("in", contract.inputs), ("out", contract.outputs)):
        for port in ports:
            if port.name not in memories:
                table.add_row(
                    direction,
                    for_rich(port.name),
                    port.dtype,
                    for_rich(format_shape(port)),
                    for_rich(port.kind or ""),
                    for_rich(port.unit or ""),
                    *((port.source or "",) if contract.has_sources else ()),
                    for_rich(format_elements(port)),
                )
    return table


def _print_rest(console: Console, contract: Contract) -> None:
    for memory in contract.memories:
        start = memory.initial_value()
        origin = "carried from policy step to sub-steps" if memory.carried else "registered"
        text = f"{memory.name} {start.dtype} {list(start.shape)}, starts from {format_values(start)}, {origin}"
        console.print(f"[bold]memory[/] {for_rich(text)}", highlight=False, soft_wrap=True)
    for frozen in contract.frozen:
        declared = f", declared as {frozen.declared}" if frozen.declared else ""
        text = f"{frozen.name} {frozen.dtype} {list(frozen.shape)}{declared}"
        console.print(f"[bold]constant[/] {for_rich(text)}", highlight=False)
    for item in contract.substitutes or ():
        console.print(f"[bold]substitute[/] {for_rich(format_substitute(item))}", highlight=False, soft_wrap=True)
    for what, terms in format_terms(contract).items():
        console.print(f"[bold]{for_rich(what)}[/] {for_rich(', '.join(terms))}", highlight=False)
    if contract.unused_inputs:
        console.print(
            f"[bold]unused inputs, not in the file[/] {for_rich(', '.join(contract.unused_inputs))}", highlight=False
        )
