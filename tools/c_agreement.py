"""Compares C with onnxruntime on every distinct graph among some files, as tests left them behind.

    python -m pytest -o tmp_path_retention_policy=all --basetemp FOLDER …
    python -m tools.c_agreement FOLDER

Each graph is built (which computes its golden trace), then runs random ticks with resets beside onnxruntime, at both
rates. Both get the memories that onnxruntime computed; differences are judged as `exploy evaluate` judges rounding.
"""

import argparse
import collections
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from exploy.codegen.build import build
from exploy.codegen.compilers import Compiler, find_compiler
from exploy.comparison import difference
from exploy.contract import Contract
from exploy.errors import CompilerError, ExployError, LoweringError
from exploy.runtime.engine import Parts
from exploy.runtime.model_file import ModelFile
from exploy.verify.rounding import RoundingSpread
from exploy.verify.stepped import CannotRunError, SteppedRunners, Values, stepped_file
from tests.support.c_ticks import random_ticks

_ATOL = _RTOL = 1e-6  # beside what rounding explains
_RESET_EVERY = 50


@dataclass(frozen=True)
class Verdict:
    """What came out for a graph: `agrees`, `refused`, `differs` or `skipped`, and why."""

    outcome: str
    reason: str = ""


def main() -> None:
    """Compare all files of a folder, print what does not agree, and count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ticks", type=int, default=1000)
    arguments = parser.parse_args()
    compiler = find_compiler()
    if compiler is None:
        raise SystemExit("There is no compiler of C.")
    counts: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    for path, file in distinct_files(arguments.folder):
        verdict = judge(file, compiler, arguments.ticks)
        counts[verdict.outcome] += 1
        if verdict.reason:
            reasons[f"{verdict.outcome}: {_general(verdict.reason)}"] += 1
        if verdict.outcome != "agrees":
            print(f"{verdict.outcome:8} {path.relative_to(arguments.folder)}: {verdict.reason}", flush=True)
    print(dict(counts))
    for reason, count in reasons.most_common():
        print(f"{count:5} {reason}")


def distinct_files(folder: Path) -> Iterator[tuple[Path, ModelFile]]:
    """One file for each graph: the same operators with the same shapes and attributes count as the same."""
    seen = set()
    for path in sorted(folder.rglob("*.onnx")):
        try:
            file = ModelFile.load(path)
            key = _shape_of_graph(file.data)
        except Exception:  # files that tests damaged
            continue
        if file.outline is not None and key not in seen:
            seen.add(key)
            yield path, file


def _shape_of_graph(data: bytes) -> str:
    model = onnx.ModelProto.FromString(data)
    digest = hashlib.sha256()
    for tensor in model.graph.initializer:
        digest.update(f"{tensor.data_type} {list(tensor.dims)}".encode())
    for graph in (model.graph, *model.functions):
        for node in graph.node:
            del node.metadata_props[:]
            digest.update(node.SerializeToString(deterministic=True))
    for value in (*model.graph.input, *model.graph.output):
        digest.update(value.SerializeToString(deterministic=True))
    return digest.hexdigest()


def judge(file: ModelFile, compiler: Compiler, ticks: int) -> Verdict:
    """Build one file, and compare it with onnxruntime."""
    contract = file.contract
    try:
        built = build(file.data, contract, "policy", compiler, outline=file.outline)
    except LoweringError as error:
        return Verdict("refused", str(error))
    except CompilerError as error:
        return Verdict("differs", f"does not compile: {error}")
    except ExployError as error:
        return Verdict("differs", str(error))
    try:
        reference = stepped_file(file.data)
    except ExployError as error:
        return Verdict("skipped", str(error))
    found = compare(reference, stepped_file(built.archive), contract, ticks)
    return Verdict("differs", found) if found else Verdict("agrees")


def compare(
    reference: SteppedRunners, compiled: SteppedRunners, contract: Contract, ticks: int, reset_every: int = _RESET_EVERY
) -> str:
    """Run random ticks on both. Returns where they differ; empty if they agree."""
    spread = RoundingSpread(reference, contract)
    start = {memory.input: memory.initial_value() for memory in contract.memories}
    memories: Values = dict(start)
    for number, tick in enumerate(random_ticks(contract, ticks, reset_every)):
        if tick.is_reset:
            memories = dict(start)
        step_count = (number % reset_every) % contract.decimation
        inputs = dict(tick.inputs)
        inputs |= {port.name: np.full(port.fixed_shape(), tick.is_reset) for port in Parts.of(contract).is_init}
        try:
            expected = reference.run(step_count, inputs | memories)
        except CannotRunError:
            continue  # an input that the file cannot take
        try:
            got = compiled.run(step_count, inputs | memories)
        except CannotRunError as error:
            return f"tick {number}: {error}"
        spread.record(step_count, inputs, memories, expected)
        for name, value in expected.items():
            if difference(value, got[name], _ATOL, _RTOL) is None:
                continue
            found = difference(value, got[name], _ATOL, _RTOL, explained=spread.allowed(name))
            if found is not None:
                return f"tick {number}: output {name!r}, {found}"
        memories = {memory.input: expected[memory.output] for memory in contract.memories}
    return ""


def _general(reason: str) -> str:
    """A reason without the numbers of one file."""
    return re.sub(r"[-+]?\d[\d.e+-]*", "#", reason)[:160]


if __name__ == "__main__":
    main()
