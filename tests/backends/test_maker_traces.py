"""Files tell nothing about the machine that made them, beyond the provenance in the contract."""

import io
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from tests.support.command_line import ROOT

TELL_TALE = "telltale"
CODE = """
import sys
from exploy import export
from tests.support.environments import make_actor
from telltale_robot import TelltaleRobot
for name in sys.argv[1:]:
    export(TelltaleRobot(), make_actor(13, 3), "out/policy", backend=name, strict=False)
"""
MODULE = """
from tests.support.robot import Robot
class TelltaleRobot(Robot):
    def env_name(self):
        return "robot"
"""


def exported(tmp_path: Path, *backends: str) -> Path:
    """The folder of files that were exported in a folder and by a user with tell-tale names."""
    home = tmp_path / f"{TELL_TALE}_home"
    work = home / f"{TELL_TALE}_project"
    work.mkdir(parents=True)
    (work / "telltale_robot.py").write_text(MODULE)
    (work / "script.py").write_text(CODE)
    temporary = tmp_path / f"{TELL_TALE}_temporary"
    temporary.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHINDUCTOR")}
    environment |= {"HOME": str(home), "USER": f"{TELL_TALE}_user", "LOGNAME": f"{TELL_TALE}_user"}
    environment |= {"TMPDIR": str(temporary), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "HOSTNAME": f"{TELL_TALE}_host"}
    command = [sys.executable, "-W", "ignore", "script.py", *backends]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return work / "out"


def contents(path: Path) -> dict[str, bytes]:
    """The bytes of a file, and of each of its members as they are when unpacked."""
    data = path.read_bytes()
    found = {path.name: data}
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            found |= {name: file.read(name) for name in file.namelist()}
    return found


def assert_tells_nothing(path: Path) -> None:
    folders = [ROOT, Path(torch.__file__).parents[1], Path(sys.prefix), Path(sys.base_prefix)]
    secrets = [TELL_TALE.encode(), *(str(folder).encode() for folder in folders), b"site-packages"]
    if len(socket.gethostname()) > 6:
        secrets.append(socket.gethostname().encode())
    for name, data in contents(path).items():
        for secret in secrets:
            place = data.lower().find(secret.lower())
            assert place < 0, f"{path.name}, {name}: {data[max(0, place - 80) : place + 80]!r}"


@pytest.mark.expensive
def test_a_file_tells_nothing_about_its_maker(tmp_path: Path) -> None:
    folder = exported(tmp_path, "onnx", "torch_export")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert [path.suffix for path in files].count(".pt2") == 1 and len(files) == 4, files
    for path in files:
        assert_tells_nothing(path)


@pytest.mark.expensive
@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs g++")
def test_a_compiled_library_tells_nothing_about_its_maker(tmp_path: Path) -> None:
    folder = exported(tmp_path, "aot_inductor")
    assert_tells_nothing(folder / "policy.pt2")
