"""The two formats by themselves: checksums over everything, bounded memory, files that are closed in any case."""

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exploy.errors import LogError
from exploy.runtime.logs.formats import load_log, open_sink
from exploy.runtime.logs.growing_file import GrowingFile
from exploy.runtime.logs.log import Event, Header, Signal, Sink
from exploy.runtime.logs.npz import part_of

FORMATS = pytest.mark.parametrize("ending", [".npz", ".mcap"])
EVENTS = [Event(1, 1_000_005, {"event": "reset"}), Event(3, 1_000_025, {"event": "ramp_in", "ticks": 7})]


def make_header(width: int = 3) -> Header:
    return Header("d" * 64, 4, (Signal("x", "float32", (1, width)),), (Signal("y", "float64", (2,)),), 5)


def make_rows(count: int, header: Header, first: int = 0) -> np.ndarray:
    rows = np.zeros(count, header.row_type)
    rows["tick"] = np.arange(first, first + count)
    rows["time"] = 1_000_000 + 10 * rows["tick"]
    rows["duration"] = 7
    rows["signal 0"] = np.random.default_rng(first).normal(size=rows["signal 0"].shape)
    return rows


def written(path: Path) -> bytes:
    """The bytes of a log of five ticks and two events."""
    header = make_header()
    sink = open_sink(path, path.suffix, header)
    sink.write(make_rows(2, header), EVENTS[:1])
    sink.write(make_rows(3, header, first=2), EVENTS[1:])
    sink.close()
    return path.read_bytes()


@FORMATS
def test_every_changed_bit_is_noticed_or_without_effect(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"run{ending}"
    data = written(path)
    expected = load_log(path)
    rng = np.random.default_rng(1)
    for place in rng.choice(len(data), 400, replace=False):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        try:
            log = load_log(path)
        except LogError:
            continue
        assert log.events == expected.events and log.header == expected.header
        for name in ("tick", "time", "duration"):
            np.testing.assert_array_equal(getattr(log, name), getattr(expected, name))
        np.testing.assert_array_equal(log.inputs["x"], expected.inputs["x"])


@pytest.mark.parametrize("field", ["time", "tick", "duration", "events", "values"])
def test_an_mcap_log_that_was_written_anew_with_another_number_is_refused(field: str, tmp_path: Path) -> None:
    """Its own checksum is right then, and only the checksums of the messages tell."""
    from mcap.stream_reader import StreamReader
    from mcap.writer import Writer

    written(tmp_path / "run.mcap")
    swaps = {"events": (b'"ticks": 7', b'"ticks": 8'), "values": (b'"data": [0.', b'"data": [1.')}
    swaps |= {name: (b'"%s": ' % name.encode(), b'"%s": 1' % name.encode()) for name in ("tick", "duration")}
    with (tmp_path / "run.mcap").open("rb") as source, (tmp_path / "new.mcap").open("wb") as target:
        writer: Any = Writer(target, use_chunking=False)
        writer.start()
        record: Any
        for record in StreamReader(source).records:
            kind = type(record).__name__
            if kind == "Metadata":
                writer.add_metadata(record.name, record.metadata)
            elif kind == "Schema" and record.id > len(writer._Writer__schemas):
                writer.register_schema(record.name, record.encoding, record.data)
            elif kind == "Channel" and record.id > len(writer._Writer__channels):
                writer.register_channel(record.topic, record.message_encoding, record.schema_id, record.metadata)
            elif kind == "Message":
                data = record.data.replace(*swaps[field]) if field in swaps else record.data
                time = record.log_time + (field == "time")
                writer.add_message(record.channel_id, time, data, time, record.sequence)
        writer.finish()
    with pytest.raises(LogError, match="checksum"):
        load_log(tmp_path / "new.mcap")


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7F800001])
@FORMATS
def test_every_kind_of_nan_is_read_again(ending: str, bits: int, tmp_path: Path) -> None:
    header = make_header()
    rows = make_rows(1, header)
    rows["signal 0"] = np.array([bits] * 3, np.uint32).view(np.float32)
    sink = open_sink(tmp_path / f"run{ending}", ending, header)
    sink.write(rows, [])
    sink.close()
    assert np.isnan(load_log(tmp_path / f"run{ending}").inputs["x"]).all()


def test_closing_an_npz_log_does_not_load_it_into_memory(tmp_path: Path) -> None:
    header = make_header(width=256)
    sink = open_sink(tmp_path / "run.npz", ".npz", header)
    for part in range(64):
        sink.write(make_rows(256, header, first=256 * part), [])
    size = part_of(tmp_path / "run.npz").stat().st_size
    assert size > 16e6
    tracemalloc.start()
    sink.close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size / 8
    log = load_log(tmp_path / "run.npz")
    assert log.ticks == 64 * 256 and log.tick.tolist() == list(range(64 * 256))
    np.testing.assert_array_equal(log.inputs["x"][256:512], make_rows(256, header, first=256)["signal 0"])


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_parts_that_are_damaged_in_the_middle_are_refused(share: float, tmp_path: Path) -> None:
    header = make_header()
    sink = open_sink(tmp_path / "run.npz", ".npz", header)
    for part in range(10):
        sink.write(make_rows(5, header, first=5 * part), [])
    path = part_of(tmp_path / "run.npz")
    data = bytearray(path.read_bytes())
    path.write_bytes(data + bytes(500))  # a power cut can leave zeros at the end
    assert load_log(tmp_path / "run.npz").ticks == 50
    data[int(share * len(data))] ^= 4
    path.write_bytes(data)
    with pytest.raises(LogError, match="damaged"):
        load_log(tmp_path / "run.npz")
    sink.sync()


@FORMATS
def test_a_log_is_closed_even_if_it_cannot_be_finished(ending: str, tmp_path: Path, monkeypatch: Any) -> None:
    header = make_header()
    before = len(os.listdir("/proc/self/fd"))
    sink: Sink = open_sink(tmp_path / f"run{ending}", ending, header)
    sink.write(make_rows(5, header), EVENTS)

    def fail(self: object, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(GrowingFile, "append", fail)
    with pytest.raises(OSError, match="No space left"):
        sink.write(make_rows(1, header, first=5), [])
    monkeypatch.undo()
    sink.close()
    assert len(os.listdir("/proc/self/fd")) == before
    log = load_log(tmp_path / f"run{ending}")
    assert log.ticks == 5 and log.events == EVENTS


def test_a_growing_file_cuts_off_what_could_not_be_written_whole(tmp_path: Path, monkeypatch: Any) -> None:
    file = GrowingFile(tmp_path / "log")
    file.append(b"whole")
    real = os.write

    def write_half(descriptor: int, data: memoryview) -> int:
        if len(data) < 4:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", write_half)
    with pytest.raises(OSError, match="No space left"):
        file.append(b"not whole")
    monkeypatch.undo()
    file.append(b" again")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"whole again"
