"""Files are written whole or not at all."""

from pathlib import Path

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
