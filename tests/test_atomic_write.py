"""Files are written whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exploy.atomic_write import replacing
from exploy.errors import OutputPathError


def test_the_target_appears_when_the_body_succeeds(tmp_path: Path):
    target = tmp_path / "new" / "policy.onnx"
    with replacing(target) as temporary:
        temporary.write_bytes(b"content")
        assert not target.exists()
    assert target.read_bytes() == b"content"
    assert list(target.parent.iterdir()) == [target]


def test_a_failing_body_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    target = tmp_path / "policy.onnx"
    target.write_bytes(b"old")

    def fail_half_way() -> None:
        with replacing(target) as temporary:
            temporary.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_new_file_has_ordinary_permissions(tmp_path: Path):
    (tmp_path / "ordinary").touch()
    with replacing(tmp_path / "policy.onnx") as temporary:
        temporary.write_bytes(b"")
    assert (tmp_path / "policy.onnx").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_a_folder_below_a_file_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputPathError, match="Cannot write"), replacing(tmp_path / "file" / "policy.onnx"):
        pytest.fail("the body ran")


def test_an_error_of_the_disk_is_told_with_the_path(tmp_path: Path):
    def fill_the_disk() -> None:
        with replacing(tmp_path / "policy.onnx"):
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputPathError, match=r"policy\.onnx: No space left"):
        fill_the_disk()
    assert not list(tmp_path.iterdir())


# -- links ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exists", [True, False], ids=["link to a file", "dangling link"])
def test_a_link_stays_and_the_file_it_leads_to_is_written(tmp_path: Path, exists: bool):
    (tmp_path / "shelf").mkdir()
    if exists:
        (tmp_path / "shelf" / "v1.onnx").write_bytes(b"old")
    (tmp_path / "policy.onnx").symlink_to(Path("shelf") / "v1.onnx")
    with replacing(tmp_path / "policy.onnx") as temporary:
        temporary.write_bytes(b"new")
        assert temporary.parent == (tmp_path / "shelf").resolve()
    assert (tmp_path / "policy.onnx").is_symlink()
    assert (tmp_path / "shelf" / "v1.onnx").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 2 and len(list((tmp_path / "shelf").iterdir())) == 1


def test_a_link_to_a_folder_and_a_link_to_itself_are_refused(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "policy.onnx").symlink_to("folder")
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    with pytest.raises(OutputPathError, match="is a folder"), replacing(tmp_path / "policy.onnx"):
        pytest.fail("the body ran")
    with pytest.raises(OutputPathError, match="leads to itself"), replacing(tmp_path / "loop.onnx"):
        pytest.fail("the body ran")
    assert len(list(tmp_path.iterdir())) == 3


# -- killed processes -----------------------------------------------------------------------------------------

WRITES = """
import sys, time
from pathlib import Path
from exploy.atomic_write import replacing
with replacing(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    print(temporary.name, flush=True)
    time.sleep(60)
"""


def test_the_next_write_removes_what_a_killed_process_left_and_nothing_of_a_live_one(tmp_path: Path):
    target = tmp_path / "policy.onnx"
    bystanders = [tmp_path / name for name in (".policy.onnx.notes", ".other.onnx.0123456789abcdef.exploy_tmp")]
    for path in bystanders:
        path.write_bytes(b"not ours")
    arguments = [sys.executable, "-c", WRITES, str(target)]
    writers = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    names = [writer.stdout.readline().strip() for writer in writers if writer.stdout is not None]
    assert len(set(names)) == 2
    writers[0].kill()
    writers[0].wait(timeout=10)
    with replacing(target) as temporary:
        temporary.write_bytes(b"whole")
        assert {path.name for path in tmp_path.iterdir()} == {
            names[1],
            temporary.name,
            *(path.name for path in bystanders),
        }
    writers[1].kill()
    writers[1].wait(timeout=10)
    with replacing(target) as temporary:
        temporary.write_bytes(b"again")
    assert sorted(tmp_path.iterdir()) == sorted([target, *bystanders])
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()


def test_a_temporary_file_is_on_the_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch):
    done: list[str] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def watched(*arguments: Any) -> Any:
            done.append(name)
            return real(*arguments)

        monkeypatch.setattr(os, name, watched)

    watch("fsync")
    watch("replace")
    with replacing(tmp_path / "policy.onnx") as temporary:
        temporary.write_bytes(b"content")
    assert done == ["fsync", "replace", "fsync"]  # the file, then its name, then the folder


def test_names_may_be_as_long_as_the_file_system_allows(tmp_path: Path):
    for name in ("p" * 250 + ".onnx", "ü" * 120 + ".onnx"):
        with replacing(tmp_path / name) as temporary:
            temporary.write_bytes(b"content")
        assert (tmp_path / name).read_bytes() == b"content"
