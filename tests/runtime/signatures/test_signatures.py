"""Signatures fail closed: whatever is wrong with file, signature or keys, nothing is loaded."""

import base64
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from exploy.contract import Contract, Port
from exploy.errors import ContractError, OutputPathError, SignatureError
from exploy.runtime import Controller
from exploy.runtime.archives import archive
from exploy.runtime.model_file import ModelFile
from exploy.runtime.signatures.public_keys import PublicKey, read_keys
from exploy.runtime.signatures.signature import Signature
from exploy.runtime.signing import new_key, sign_file
from exploy.verify.session_wrapper import SessionWrapper
from tests.support.command_line import assert_fails, run
from tests.support.files import recurrent_file, robot_file, write


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    """A file that Alice has signed; her key is in the same folder."""
    new_key(tmp_path / "alice.key", "Alice")
    path = write(robot_file(), tmp_path)
    sign_file(path, tmp_path / "alice.key")
    return path


# -- what loads -----------------------------------------------------------------------------------------------


def test_keys_are_taken_in_every_form(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = signed.parent
    line = (folder / "alice.pub").read_text()
    other = new_key(folder / "others" / "bob.key")
    (folder / "list").write_text(f"# the robots of building 2\n\n{other}\n{line}")
    (folder / "keys").mkdir()
    (folder / "keys" / "a.pub").write_text(line)
    (folder / "keys" / "README").write_text("not a key")
    forms: list[Any] = [
        line,
        line.split()[0],
        line.replace(" ", "\t"),
        folder / "alice.pub",
        str(folder / "list"),
        folder / "keys",
        [str(other), folder / "alice.pub"],
        (key for key in [line]),
    ]
    for keys in forms:
        statement = ModelFile.load(signed, trusted_keys=keys).signed
        assert statement is not None and statement.name == "Alice"
    monkeypatch.setenv("EXPLOY_TRUSTED_KEYS", f"{folder / 'others'}:{line.split()[0]}:{folder / 'keys'}")
    assert Controller.load(signed).selftest() == 12
    monkeypatch.setenv("EXPLOY_TRUSTED_KEYS", str(folder / "others"))
    with pytest.raises(SignatureError, match="which is not trusted"):
        Controller.load(signed, trusted_keys=line)  # both must accept it


def test_bytes_come_with_their_signature(signed: Path) -> None:
    keys, place = signed.parent / "alice.pub", Path(f"{signed}.sig")
    for signature in (place, str(place), place.read_bytes()):
        assert Controller.load(signed.read_bytes(), trusted_keys=keys, signature=signature).selftest() == 12
    with pytest.raises(SignatureError, match="bytes need signature="):
        Controller.load(signed.read_bytes(), trusted_keys=keys)
    with pytest.raises(SignatureError, match="must be the bytes of a signature or its path, got 7"):
        Controller.load(signed, trusted_keys=keys, signature=7)  # type: ignore[arg-type]


def test_a_link_to_a_file_finds_the_signature_of_the_file(signed: Path, tmp_path: Path) -> None:
    (tmp_path / "current.onnx").symlink_to(signed.name)
    assert Controller.load(tmp_path / "current.onnx", trusted_keys=tmp_path / "alice.pub").selftest() == 12


def test_without_trusted_keys_nothing_is_asked_for(signed: Path) -> None:
    Path(f"{signed}.sig").write_text("rubbish")
    assert Controller.load(signed).selftest() == 12


# -- what does not --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys", [[], "", "nowhere.pub", "empty", "alice.key", "ed25519:QUJD", ["alice.pub", "bad.pub"], 7]
)
def test_keys_that_cannot_be_used_refuse_every_file(keys: Any, signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(signed.parent)
    (signed.parent / "empty").mkdir()
    (signed.parent / "bad.pub").write_bytes(b"\xff\xfe")
    with pytest.raises(SignatureError):
        Controller.load(signed, trusted_keys=keys)
    with pytest.raises(SignatureError):
        SessionWrapper(signed.parent, signed.name, trusted_keys=keys)


@pytest.mark.parametrize("y", [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, 1 + 2**255])
def test_keys_that_fit_signatures_of_anybody_are_not_trusted(y: int, signed: Path) -> None:
    """Points of small order: for these, a signature can be made without a private key."""
    weak = "ed25519:" + base64.b64encode(y.to_bytes(32, "little")).decode()
    with pytest.raises(SignatureError, match="not the key of anybody"):
        Controller.load(signed, trusted_keys=weak)


@pytest.mark.parametrize("value", ["", ":", " ", "nowhere.pub", "alice.pub:nowhere.pub"])
def test_a_variable_that_names_no_key_refuses_every_file(
    value: str, signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(signed.parent)
    monkeypatch.setenv("EXPLOY_TRUSTED_KEYS", value)
    with pytest.raises(SignatureError):
        Controller.load(signed)
    with pytest.raises(SignatureError):
        SessionWrapper(signed.parent, signed.name)
    for command in (["inspect"], ["verify"], ["bench", "--ticks", "10"], ["report"], ["verify", "x:y"]):
        result = run(command[0], signed.name, *command[1:], folder=signed.parent)
        assert result.returncode == 2 and "key" in result.stderr, command


@pytest.mark.parametrize("field", ["name", "date", "public_key", "sha256", "size", "version", "algorithm", "signature"])
def test_every_field_of_a_signature_is_signed(field: str, signed: Path) -> None:
    place = Path(f"{signed}.sig")
    document = json.loads(place.read_text())
    other = {"size": 1, "version": 2, "date": "2020-01-01T00:00:00Z", "name": "Bob"}
    text = str(document[field])
    document[field] = other.get(field, ("B" if text[0] != "B" else "C") + text[1:])
    place.write_text(json.dumps(document))
    with pytest.raises(SignatureError):
        Controller.load(signed, trusted_keys=signed.parent / "alice.pub")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"[" * 100_000,
        b"\xff",
        b'{"version": 1}',
        b"1" * 70_000,
        b'{"signature": "\\ud800"}',
    ],
    ids=lambda content: repr(content[:8]),
)
def test_rubbish_in_place_of_a_signature_is_refused(content: bytes, signed: Path) -> None:
    Path(f"{signed}.sig").write_bytes(content)
    with pytest.raises(SignatureError):
        Controller.load(signed, trusted_keys=signed.parent / "alice.pub")
    assert run("inspect", signed).returncode == 1


@pytest.mark.parametrize("name", ["Al\x1b[2Jice", "a\nb", "x" * 201, "\u202eecilA"])
def test_names_that_would_trick_a_terminal_are_not_shown(name: str, signed: Path) -> None:
    with pytest.raises(SignatureError, match="printable"):
        sign_file(signed, signed.parent / "alice.key", name=name)
    place = Path(f"{signed}.sig")
    place.write_text(json.dumps(json.loads(place.read_text()) | {"name": name}))
    with pytest.raises(SignatureError) as refused:
        Controller.load(signed, trusted_keys=signed.parent / "alice.pub")
    assert name not in str(refused.value) and name not in run("inspect", signed).stdout


def test_a_signature_of_another_file_does_not_fit(signed: Path, tmp_path: Path) -> None:
    other = write(recurrent_file(), tmp_path, "other.onnx")
    Path(f"{other}.sig").write_bytes(Path(f"{signed}.sig").read_bytes())
    with pytest.raises(SignatureError, match="changed after it was signed"):
        Controller.load(other, trusted_keys=tmp_path / "alice.pub")
    result = run("inspect", other)
    assert result.returncode == 1 and "DOES NOT FIT" in result.stdout


def test_the_file_is_read_once_and_nothing_is_parsed_before_the_signature(
    signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    real = Path.read_bytes

    def read(path: Path) -> bytes:
        reads.append(path.name)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    Controller.load(signed, trusted_keys=signed.parent / "alice.pub")
    assert reads == ["policy.onnx"]
    monkeypatch.setattr(ModelFile, "parse", lambda *_, **__: pytest.fail("parsed"))
    Path(f"{signed}.sig").unlink()
    with pytest.raises(SignatureError, match="not signed"):
        Controller.load(signed, trusted_keys=signed.parent / "alice.pub")


def test_a_session_runs_the_bytes_that_were_checked(signed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = signed.parent / "alice.pub"
    real = ModelFile.load

    def load_then_swap(*arguments: Any, **options: Any) -> ModelFile:
        file = real(*arguments, **options)
        signed.write_bytes(recurrent_file())
        return file

    monkeypatch.setattr(ModelFile, "load", load_then_swap)
    session = SessionWrapper(signed.parent, signed.name, optimize=False, trusted_keys=keys)
    assert "joints.pos" in session.input_names


def test_exports_go_on_where_only_signed_files_are_loaded(signed: Path, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"EXPLOY_TRUSTED_KEYS": str(tmp_path / "alice.pub")}
    result = run("export", "examples/quickstart.py:make", "-o", tmp_path / "new.onnx", **keys)
    assert result.returncode == 0, result.stderr
    assert_fails(run("verify", tmp_path / "new.onnx", **keys), "is not signed")


# -- keys and signing -----------------------------------------------------------------------------------------


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    new_key(tmp_path / "alice.key")
    before = (tmp_path / "alice.key").read_bytes()
    with pytest.raises(OutputPathError, match=r"alice\.key already exists"):
        new_key(tmp_path / "alice.key")
    (tmp_path / "bob.pub").touch()
    with pytest.raises(OutputPathError, match=r"bob\.pub already exists"):
        new_key(tmp_path / "bob.key")
    (tmp_path / "carol.key").symlink_to("nowhere")
    with pytest.raises(OutputPathError, match=r"carol\.key already exists"):
        new_key(tmp_path / "carol.key")
    assert (tmp_path / "alice.key").read_bytes() == before and not (tmp_path / "bob.key").exists()


def test_a_private_key_is_for_its_owner_alone_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        new_key(tmp_path / "alice.key")
    finally:
        os.umask(before)
    assert (tmp_path / "alice.key").stat().st_mode & 0o777 == 0o600


def test_a_passphrase_is_asked_for_again(tmp_path: Path) -> None:
    path = write(robot_file(), tmp_path)
    key = ["--key", tmp_path / "alice.key"]
    made = run("keys", "new", "--out", tmp_path / "alice.key", "--passphrase", EXPLOY_KEY_PASSPHRASE="horse")
    assert made.returncode == 0 and b"ENCRYPTED" in (tmp_path / "alice.key").read_bytes()
    assert_fails(run("sign", path, *key), "Check the file and the passphrase")
    assert_fails(run("sign", path, *key, EXPLOY_KEY_PASSPHRASE="donkey"), "Check the file and the passphrase")
    assert run("sign", path, *key, EXPLOY_KEY_PASSPHRASE="horse").returncode == 0
    assert Controller.load(path, trusted_keys=tmp_path / "alice.pub").selftest() == 12


def test_only_whole_files_are_signed(tmp_path: Path) -> None:
    new_key(tmp_path / "alice.key")
    with pytest.raises(ContractError):
        sign_file(write(robot_file()[:-1], tmp_path, "cut.onnx"), tmp_path / "alice.key")
    with pytest.raises(SignatureError, match="Cannot read"):
        sign_file(tmp_path / "missing.onnx", tmp_path / "alice.key")
    path = write(robot_file(), tmp_path)
    for key in (tmp_path / "missing.key", tmp_path / "alice.pub", path):
        with pytest.raises(SignatureError):
            sign_file(path, key)
    assert not Path(f"{path}.sig").exists()


def test_without_cryptography_keys_and_signatures_name_the_extra(signed: Path) -> None:
    code = f"""
import sys
sys.modules["cryptography"] = None
from pathlib import Path
from exploy.errors import SignatureError
from exploy.runtime import Controller
from exploy.runtime.signing import new_key, sign_file
folder = Path({str(signed.parent)!r})
print(Controller.load(folder / "policy.onnx").selftest())
for attempt in (
    lambda: Controller.load(folder / "policy.onnx", trusted_keys=folder / "alice.pub"),
    lambda: new_key(folder / "new.key"),
    lambda: sign_file(folder / "policy.onnx", folder / "alice.key"),
):
    try:
        attempt()
    except SignatureError as error:
        print("pip install 'exploy[sign]'" in str(error))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == ["12", "True", "True", "True"], result.stderr


def test_inspect_tells_who_signed_also_to_programs(signed: Path) -> None:
    keys = signed.parent / "alice.pub"
    assert "valid, by 'Alice'" in run("inspect", signed).stdout
    assert "not verified against a trusted key" in run("inspect", signed).stdout
    assert "; trusted" in run("inspect", signed, "--trusted-keys", keys).stdout
    document = json.loads(run("inspect", signed, "--json").stdout)["signature"]
    assert document["name"] == "Alice" and document["misfit"] is None and not document["trusted"]
    (key,) = read_keys(keys)
    assert document["key"] == key.id and PublicKey.parse(str(key)) == key
    Path(f"{signed}.sig").unlink()
    assert json.loads(run("inspect", signed, "--json").stdout)["signature"] is None


def test_a_signature_file_is_small_json(signed: Path) -> None:
    data = Path(f"{signed}.sig").read_bytes()
    assert len(data) < 1000
    assert Signature.from_json(data, "it").to_json().encode() == data


# -- compiled code --------------------------------------------------------------------------------------------


def archive_with(members: dict[str, bytes], backend: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(f"policy/{name}", content)
    ports = (Port("x", "float32", (1,)),), (Port("y", "float32", (1,)),)
    return archive.seal(buffer.getvalue(), Contract(1, *ports, (), backend=backend))


WINDOWS = b"MZ" + bytes(58) + (64).to_bytes(4, "little") + b"PE\0\0" + bytes(64)


@pytest.mark.parametrize(
    ("members", "backend"),
    [
        ({"data/model.so": b"x"}, "torch_export"),
        ({"data/model.so.2": b"x"}, "torch_export"),
        ({"data/weights": b"\x7fELF\x02\x01"}, "torch_export"),
        ({"data/weights.bin": WINDOWS}, "torch_export"),
        ({"tool.PYD": b"x"}, "openvino"),
        ({"data/model": b"x"}, "aot_inductor"),
    ],
)
def test_compiled_code_is_not_loaded_unless_somebody_vouches_for_it(
    members: dict[str, bytes], backend: str, tmp_path: Path
) -> None:
    path = write(archive_with(members, backend), tmp_path, "policy.pt2")
    with pytest.raises(SignatureError, match="allow_code=True"):
        Controller.load(path)
    new_key(tmp_path / "alice.key")
    sign_file(path, tmp_path / "alice.key")
    with pytest.raises(SignatureError, match="has compiled code"):
        Controller.load(path)  # a signature that nobody asked for vouches for nothing
    for options in ({"allow_code": True}, {"trusted_keys": tmp_path / "alice.pub"}):
        with pytest.raises(ContractError) as error:  # it is no real archive of torch, but it would have been loaded
            Controller.load(path, **options)
        assert not isinstance(error.value, SignatureError)


def test_an_archive_without_code_needs_no_word(tmp_path: Path) -> None:
    data = archive_with({"data/weights": b"MZ" + bytes(200), "model.json": b"{}"}, "torch_export")
    with pytest.raises(ContractError) as error:
        Controller.load(data)
    assert not isinstance(error.value, SignatureError)
