"""Runs cases in processes of their own, with a watchdog: a case may kill its process or hang."""

import collections
import importlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.fuzz import corpus as corpora

SECONDS = 10.0  # that a case may take
_NEED_TORCH = ("archive",)
_MEMORY, _MEMORY_WITH_TORCH = 4 * 2**30, 16 * 2**30  # of a process, so that what asks for all memory fails alone
_BATCH = 200


@dataclass(frozen=True)
class Failure:
    """A case that went wrong: how, and the kind and seed that repeat it."""

    what: str
    kind: str
    seed: int
    detail: str

    def __str__(self) -> str:
        repeat = f"python -m tests.fuzz 1 --only {self.kind} --seed {self.seed}"
        return f"{self.what}: {repeat}\n{self.detail}"


@dataclass
class Result:
    """What came of all cases."""

    outcomes: dict[str, collections.Counter[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [str(failure) for failure in self.failures[:20]]
        for kind, found in self.outcomes.items():
            counts = ", ".join(f"{count} {what}" for what, count in found.most_common())
            lines.append(f"{kind}: {sum(found.values())} cases: {counts}")
        wrong = collections.Counter(failure.what for failure in self.failures)
        names = ("death", "hang", "other exception", "damaged accepted")
        return "\n".join([*lines, ", ".join(f"{wrong[name]} x {name}" for name in names)])


def fuzz(
    counts: dict[str, int], *, first: int = 0, jobs: int = 1, watch: Callable[[str], None] = lambda text: None
) -> Result:
    """Run cases of each kind, with seeds that count up."""
    result = Result()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus"
        corpora.save(corpora.make([kind for kind, count in counts.items() if count]), path)
        for needs_torch in (False, True):
            workers = [_Worker(path, needs_torch) for _ in range(jobs)]
            try:
                for kind, count in counts.items():
                    if count and needs_torch == (kind in _NEED_TORCH):
                        _run_kind(kind, range(first, first + count), workers, result)
                        watch(f"{kind}: {count} cases, {len(result.failures)} failures so far")
            finally:
                for worker in workers:
                    worker.stop()
    return result


def _run_kind(kind: str, seeds: range, workers: "list[_Worker]", result: Result) -> None:
    found = result.outcomes.setdefault(kind, collections.Counter())
    pending = [seeds[start : start + _BATCH] for start in range(0, len(seeds), _BATCH)][::-1]
    while pending or any(worker.batch is not None for worker in workers):
        for worker in workers:
            if worker.batch is None and pending:
                worker.start(kind, pending.pop())
            failure = worker.look(found)
            if failure is not None:
                result.failures.append(failure)
                found[failure.what] += 1
        time.sleep(0.005)


class _Worker:
    """A process that runs batches of cases, and is started again when a case ends it."""

    def __init__(self, path: Path, needs_torch: bool):
        self._path, self._needs_torch = path, needs_torch
        self._kind = ""
        self.batch: range | None = None
        self._process: Any = None
        self._connection: Connection | None = None
        self._since = 0.0

    def start(self, kind: str, batch: range) -> None:
        """Run a batch."""
        self._kind = kind
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(
                target=_serve, args=(theirs, self._needs_torch, str(self._path)), daemon=True
            )
            self._process.start()
            theirs.close()
            assert self._connection.recv() == "ready"
        assert self._connection is not None
        self._connection.send((kind, batch.start, batch.stop))
        self.batch, self._since = batch, time.monotonic()

    def look(self, found: collections.Counter[str]) -> Failure | None:
        """Take the results that have arrived; return what went wrong, if anything did."""
        if self.batch is None or self._connection is None:
            return None
        try:
            while self._connection.poll():
                seed, what, detail = self._connection.recv()
                self._since = time.monotonic()
                self.batch = self.batch[1:] or None
                if detail is not None:
                    return Failure(what, self._kind, seed, detail)
                found[what] += 1
                if self.batch is None:
                    return None
        except (EOFError, OSError):
            self._process.join()
            return self._lost("death", f"exit code {self._process.exitcode}")
        if time.monotonic() - self._since > SECONDS:
            return self._lost("hang", f"more than {SECONDS:.0f} s")
        return None

    def _lost(self, what: str, detail: str) -> Failure:
        """Give up a process, and go on behind the case that ended it."""
        assert self.batch is not None
        seed, rest = self.batch[0], self.batch[1:]
        self.stop()
        self.batch = None
        if rest:
            self.start(self._kind, rest)
        return Failure(what, self._kind, seed, detail)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(connection: Connection, needs_torch: bool, path: str) -> None:
    """Run batches until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for the life of the process
    from tests.fuzz.cases import AcceptedError, run_case

    corpus = corpora.load(Path(path))
    limit = _MEMORY_WITH_TORCH if needs_torch else _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if needs_torch:
        importlib.import_module("torch.export.pt2_archive._package")  # takes longer than a case may
    connection.send("ready")
    while True:
        try:
            kind, start, stop = connection.recv()
        except EOFError:
            return
        for seed in range(start, stop):
            try:
                connection.send((seed, run_case(kind, seed, corpus), None))
            except AcceptedError:
                connection.send((seed, "damaged accepted", traceback.format_exc(limit=-3)))
            except Exception:
                connection.send((seed, "other exception", traceback.format_exc(limit=-6)))
