"""One case: a good file or log, damaged by a seed, and what must come of it."""

import dataclasses
import hashlib
import io
import json
import re
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from exploy.contract import METADATA_KEY, NO_DIGEST, Contract
from exploy.errors import ContractError, FaultError, LogError, VerificationError
from exploy.runtime import Controller, replay
from exploy.runtime.archives import archive
from exploy.runtime.logs.formats import load_log
from exploy.runtime.logs.log import Log
from exploy.runtime.onnx import protobuf
from exploy.runtime.onnx.outline import MODEL_METADATA
from tests.fuzz.changes import change_bytes, change_json, change_message
from tests.fuzz.corpus import Corpus

_DIGEST = re.compile(rb'"digest":"[0-9a-f]{64}"\}')
_TICKS = 3


class AcceptedError(AssertionError):
    """Something damaged was taken as good."""


def run_case(kind: str, seed: int, corpus: Corpus) -> str:
    """Run one case and return what came of it.

    Raises:
        AcceptedError: If damage was not noticed, or a controller returned values that are not finite.
        Exception: Anything else that is raised is a fault of ours.
    """
    random = Random(f"{kind} {seed}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CASES[kind](random, corpus)


# -- files ----------------------------------------------------------------------------------------------------


def _sealed(random: Random, corpus: Corpus) -> str:
    """A sealed file that was damaged: refused, whatever the damage is."""
    return _require_refusal(*_damaged(random.choice(corpus["file"])[1], random, corpus["file"]))


def _contract(random: Random, corpus: Corpus) -> str:
    """A contract that was changed by somebody who can compute a digest."""
    data = random.choice(corpus["file"])[1]
    text = change_json(json.loads(_contract_of(data)), random)
    return _use(sealed_again(data, text.encode()), corpus)


def _graph(random: Random, corpus: Corpus) -> str:
    """A graph that was changed by somebody who can compute a digest."""
    data = random.choice(corpus["file"])[1]
    return _use(sealed_again(change_message(data, random)), corpus)


def _archive(random: Random, corpus: Corpus) -> str:
    """An archive: its bytes damaged, or a member changed and the archive sealed again."""
    data = random.choice(corpus["archive"])[1]
    if random.randrange(4) == 0:
        return _require_refusal(*_damaged(data, random, corpus["archive"]))
    return _use(_archive_again(data, random), corpus)


def _damaged(data: bytes, random: Random, others: list[tuple[str, bytes]]) -> tuple[bytes, bytes]:
    if random.randrange(10):
        return data, change_bytes(data, random)
    other = random.choice(others)[1]
    return data, data[: random.randrange(len(data))] + other[random.randrange(len(other)) :]


def _require_refusal(original: bytes, changed: bytes) -> str:
    if changed == original:
        return "unchanged"
    try:
        Controller.load(changed)
    except ContractError:
        return "refused"
    raise AcceptedError("a changed file was loaded")


def _use(data: bytes, corpus: Corpus) -> str:
    """Load a file and use it in every way: it is refused, or it runs with finite outputs or a fault."""
    try:
        controller = Controller.load(data)
    except ContractError as error:
        str(error)
        return "refused"
    str(controller), str(controller.contract), controller.contract.to_json()
    result = _ticks(controller)
    try:
        controller.selftest()
    except (ContractError, VerificationError):
        result += ", self-test failed"
    _ticks(controller)
    return result


def _ticks(controller: Controller) -> str:
    controller.reset()
    for tick in range(_TICKS):
        for buffer in controller.inputs.values():
            buffer[...] = tick % 2
        try:
            controller.tick()
        except FaultError:
            return "fault"
        for name, values in controller.outputs.items():
            if controller.ports[name].finite and values.dtype.kind in "fc" and not np.isfinite(values).all():
                raise AcceptedError(f"output {name!r} is not finite")
    return "ran"


# -- sealing again --------------------------------------------------------------------------------------------


def _contract_of(data: bytes) -> bytes:
    start, stop = _contract_span(data)
    return data[start:stop]


def _contract_span(data: bytes) -> tuple[int, int]:
    for item in protobuf.fields(data):
        if item.number == MODEL_METADATA:
            entry = {part.number: part for part in protobuf.fields(data, item.start, item.stop)}
            if data[entry[1].start : entry[1].stop] == METADATA_KEY.encode():
                return entry[2].start, entry[2].stop
    raise ValueError("no contract")


def sealed_again(data: bytes, contract: bytes | None = None) -> bytes:
    """The bytes of a model with a digest that fits, and perhaps another contract, valid or not."""
    if contract is not None:
        parts = []
        for item in protobuf.fields(data):
            whole = data[item.tag : item.stop]
            if item.number == MODEL_METADATA and METADATA_KEY.encode() in whole[:40]:
                entry = protobuf.encoded(1, METADATA_KEY.encode()) + protobuf.encoded(2, contract)
                whole = protobuf.encoded(MODEL_METADATA, entry)
            parts.append(whole)
        data = b"".join(parts)
    found = list(_DIGEST.finditer(data))
    if not found:
        return data
    start = found[-1].start() + len(b'"digest":"')
    stop = start + len(NO_DIGEST)
    digest = hashlib.sha256(data[:start] + data[stop:]).hexdigest()
    return data[:start] + digest.encode() + data[stop:]


def _archive_again(data: bytes, random: Random) -> bytes:
    """Change one member of an archive, and seal it again."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    contract_name = next(name for name in contents if name.endswith(METADATA_KEY))
    contract = Contract.from_json(contents.pop(contract_name).decode())
    name = random.choice([name for name in contents if name.endswith((".json", "signatures"))] * 3 + list(contents))
    if name.endswith((".json", "signatures")) and random.randrange(5):
        contents[name] = change_json(json.loads(contents[name]), random).encode()
    elif contents[name] and random.randrange(4):
        contents[name] = change_bytes(contents[name], random)
    elif random.randrange(2):
        del contents[name]
    else:
        contents[
            random.choice(("archive/data/aotinductor/x/a.so", "archive/../../x", "archive/x.pkl", name.upper()))
        ] = b"x"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", random.choice((zipfile.ZIP_STORED,) * 9 + (zipfile.ZIP_DEFLATED,))) as file:
        for item, value in contents.items():
            file.writestr(item, value)
    try:
        return archive.seal(buffer.getvalue(), dataclasses.replace(contract, digest=NO_DIGEST))
    except ContractError:
        return buffer.getvalue()


# -- logs -----------------------------------------------------------------------------------------------------


def _log(random: Random, corpus: Corpus) -> str:
    """A log that was damaged, or changed by somebody who can compute checksums."""
    ending, data = random.choice(corpus["log"])
    is_forged = ending == ".npz" and random.randrange(3) == 0
    changed = _forged_log(data, random) if is_forged else change_bytes(data, random)
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        path = Path(folder) / f"run{ending}"
        path.write_bytes(data)
        original = load_log(path.with_name(path.name.removesuffix(".part")))
        path.write_bytes(changed)
        try:
            log = load_log(path.with_name(path.name.removesuffix(".part")))
        except LogError as error:
            str(error)
            return "refused"
        if not is_forged:
            _require_start_of(log, original)
        try:
            str(replay(log, _replayed(corpus)))
        except LogError:
            return "not replayed"
    return "read"


_CONTROLLERS: list[Controller] = []


def _replayed(corpus: Corpus) -> Controller:
    if not _CONTROLLERS:
        _CONTROLLERS.append(Controller.load(corpus["file"][0][1]))
    return _CONTROLLERS[0]


def _memory() -> str | None:
    """A folder in memory, if there is one: there are many cases."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _require_start_of(log: Log, original: Log) -> None:
    """What was read must be what was written, up to where the damage starts."""
    same = log.ticks <= original.ticks and log.header == original.header
    numbers = ((log.tick, original.tick), (log.time, original.time), (log.duration, original.duration))
    same = same and all(np.array_equal(values, written[: log.ticks]) for values, written in numbers)
    same = same and log.events == original.events[: len(log.events)]
    for found, written in ((log.inputs, original.inputs), (log.outputs, original.outputs)):
        same = same and all(np.array_equal(values, written[name][: log.ticks]) for name, values in found.items())
    if not same:
        raise AcceptedError("a damaged log was read")


def _forged_log(data: bytes, random: Random) -> bytes:
    """Change the JSON, the dtype or the shape of a member, with right checksums."""
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    name = random.choice([*arrays, "header", "events"])
    if name in ("header", "events") and random.randrange(4):
        arrays[name] = np.array(change_json(json.loads(str(arrays[name])), random).replace("\ud800", ""))
    elif random.randrange(3) == 0:
        del arrays[name]
    else:
        dtypes = [np.float64, np.int8, "U3", "S3", "datetime64[s]"]
        arrays[name] = np.zeros(random.choice(((), (0,), (7,), (7, 0), (3, 3), (7, 1, 4))), random.choice(dtypes))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


CASES: dict[str, Callable[[Random, Corpus], str]] = {
    "sealed": _sealed,
    "contract": _contract,
    "graph": _graph,
    "log": _log,
    "archive": _archive,
}
