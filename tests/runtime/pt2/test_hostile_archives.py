"""Archives that would make torch run code are refused, and nothing of them runs."""

import contextlib
import dataclasses
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exploy import export
from exploy.contract import METADATA_KEY, NO_DIGEST, Contract
from exploy.errors import ContractError
from exploy.runtime import Controller
from exploy.runtime.archives import archive
from exploy.runtime.archives.compiled_code import find_code
from exploy.runtime.model_file import ModelFile
from tests.support.environments import make_actor
from tests.support.robot import Robot

Members = dict[str, bytes]

PROGRAM = "archive/models/policy_step.json"
WEIGHTS = "archive/data/weights/policy_step_weights_config.json"
CONSTANTS = "archive/data/constants/policy_step_constants_config.json"
SAMPLES = "archive/data/sample_inputs/policy_step.pt"


@pytest.fixture(scope="module")
def good() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return export(Robot(), make_actor(13, 3), Path(folder) / "policy.pt2", strict=False).path.read_bytes()


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that appears when something runs."""
    return tmp_path / "it_ran"


def members_of(data: bytes) -> tuple[Members, Contract]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    text = members.pop(next(name for name in members if name.endswith(METADATA_KEY))).decode()
    return members, dataclasses.replace(Contract.from_json(text), digest=NO_DIGEST)


def packed(members: Members) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, contents in members.items():
            file.writestr(name, contents)
    return buffer.getvalue()


def resealed(data: bytes, change: Callable[[Members], None]) -> bytes:
    """The archive with changed members and a digest that fits."""
    members, contract = members_of(data)
    change(members)
    return archive.seal(packed(members), contract)


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {self.mark}",))


def pickled(mark: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(Evil(mark), buffer)
    return buffer.getvalue()


def edited(members: Members, name: str, change: Callable[[Any], None]) -> None:
    document = json.loads(members[name])
    change(document)
    members[name] = json.dumps(document).encode()


# -- what runs code when torch loads it -----------------------------------------------------------------------


def pickled_weight(members: Members, mark: Path) -> None:
    def change(document: Any) -> None:
        payload = next(iter(document["config"].values()))
        payload["use_pickle"] = True
        members[f"archive/data/weights/{payload['path_name']}"] = pickled(mark)

    edited(members, WEIGHTS, change)


def pickled_constant(members: Members, mark: Path) -> None:
    def change(document: Any) -> None:
        payload = next(iter(document["config"].values()))
        payload["use_pickle"] = True
        members[f"archive/data/constants/{payload['path_name']}"] = pickled(mark)

    edited(members, CONSTANTS, change)


def opaque_constant(members: Members, mark: Path) -> None:
    members["archive/data/constants/opaque_obj_0"] = pickle.dumps(Evil(mark))
    edited(
        members,
        CONSTANTS,
        lambda document: document["config"].update(
            x={"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
        ),
    )


def sample_inputs(members: Members, mark: Path) -> None:
    members[SAMPLES] = pickled(mark)


def legacy_weights(members: Members, mark: Path) -> None:
    members["archive/data/weights/policy_step.pt"] = pickled(mark)


def legacy_constants(members: Members, mark: Path) -> None:
    members["archive/data/constants/policy_step.pt"] = pickled(mark)


def expression(members: Members, mark: Path) -> None:
    """A size that is computed by an expression, which torch evaluates."""
    code = f"__import__('os').system('touch {mark}')"

    def change(document: Any) -> None:
        sizes = next(iter(document["graph_module"]["graph"]["tensor_values"].values()))["sizes"]
        sizes[0] = {"as_expr": {"expr_str": code, "hint": {"as_int": 1}}}

    edited(members, PROGRAM, change)


RUN_BY_TORCH = {
    "pickled weight": pickled_weight,
    "sample inputs": sample_inputs,
    "opaque constant": opaque_constant,
    "expression": expression,
    "pickled constant": pickled_constant,
    "weights of older files": legacy_weights,
    "constants of older files": legacy_constants,
}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("how", RUN_BY_TORCH)
def test_what_torch_would_run_is_refused_before_torch_sees_it(how: str, good: bytes, mark: Path) -> None:
    hostile = resealed(good, lambda members: RUN_BY_TORCH[how](members, mark))
    with pytest.raises(ContractError, match="could run code"):
        Controller.load(hostile)
    assert not mark.exists()
    package = __import__("torch.export.pt2_archive._package", fromlist=["load_pt2"])
    with contextlib.suppress(Exception):  # torch complains after it has run the code
        package.load_pt2(io.BytesIO(hostile))
    assert mark.exists(), "the attack is none: torch alone does not run it either"


# -- what runs code later, or loads code ----------------------------------------------------------------------


def operator_of_another_module(document: Any, mark: Path) -> None:
    node = document["graph_module"]["graph"]["nodes"][0]
    node["target"] = "torch.hub.os.system"
    node["inputs"] = [{"name": "command", "arg": {"as_string": f"touch {mark}"}, "kind": 1}]


def operator_that_writes_files(document: Any, mark: Path) -> None:
    document["graph_module"]["graph"]["nodes"][0]["target"] = "torch.ops.aten.from_file.default"


def name_with_code(document: Any, mark: Path) -> None:
    code = f"x = __import__('os').system('touch {mark}')"
    text = json.dumps(document).replace('"clone"', json.dumps(code))
    document.clear()
    document.update(json.loads(text))


def attribute_with_code(document: Any, mark: Path) -> None:
    spec = next(item for item in document["graph_module"]["signature"]["input_specs"] if "buffer" in item)
    spec["buffer"]["buffer_name"] = f'a"); __import__("os").system("touch {mark}"); ("'


def guards(document: Any, mark: Path) -> None:
    document["guards_code"] = [f"__import__('os').system('touch {mark}')"]


def imported_type(document: Any, mark: Path) -> None:
    context = {"default_factory_module": "antigravity", "default_factory_name": "fly", "dict_context": []}
    tree = {"type": "collections.defaultdict", "context": context, "children_spec": []}
    document["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json.dumps([1, tree])


def imported_enumeration(document: Any, mark: Path) -> None:
    context = json.dumps({"__enum__": True, "fqn": "antigravity:fly", "name": "x"})
    tree = {"type": "builtins.dict", "context": context, "children_spec": []}
    document["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = json.dumps([1, tree])


def endless_expression(document: Any, mark: Path) -> None:
    sizes = next(iter(document["graph_module"]["graph"]["tensor_values"].values()))["sizes"]
    sizes[0] = {"as_expr": {"expr_str": "9**9**9**9", "hint": {"as_int": 1}}}


@pytest.mark.parametrize(
    "change",
    [
        operator_of_another_module,
        operator_that_writes_files,
        name_with_code,
        attribute_with_code,
        guards,
        imported_type,
        imported_enumeration,
        endless_expression,
    ],
)
def test_a_program_that_is_more_than_maths_is_refused(change: Any, good: bytes, mark: Path) -> None:
    hostile = resealed(good, lambda members: edited(members, PROGRAM, lambda document: change(document, mark)))
    with pytest.raises(ContractError, match="could run code"):
        Controller.load(hostile)
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    [
        "archive/data/aotinductor/policy_step/a.so",
        "archive/data/aotinductor/other/a.wrapper.so",
        "archive/data/constants/custom_obj_0",
        "archive/models/third.json",
        "archive/models/policy_step.so",
        "archive/code.py",
        "other/data/weights/weight_0",
    ],
)
def test_members_that_exports_do_not_write_are_refused(name: str, good: bytes) -> None:
    hostile = resealed(good, lambda members: members.update({name: b"\x7fELF"}))
    with pytest.raises(ContractError, match=r"none that exports write|not where exports put it"):
        Controller.load(hostile, allow_code=True)


def test_compiled_code_is_recognised(good: bytes) -> None:
    assert find_code(good) is None
    for name in ("archive/data/aotinductor/policy_step/a.so", "archive/lib/x.SO", "archive/kernel.cubin"):
        members, contract = members_of(good)
        assert find_code(archive.seal(packed(members | {name: b"x"}), contract)) == name


def test_a_file_of_ours_has_no_pickles(good: bytes) -> None:
    members, _ = members_of(good)
    assert members[SAMPLES] == b""
    assert not any(pickle.PROTO in contents[:1] for contents in members.values())


def test_a_pickle_of_tensors_alone_is_accepted(good: bytes) -> None:
    buffer = io.BytesIO()
    torch.save(((torch.zeros(2),), {}), buffer)
    assert Controller.load(resealed(good, lambda members: members.update({SAMPLES: buffer.getvalue()}))).selftest()


# -- archives that readers understand differently -------------------------------------------------------------


def test_every_byte_of_an_archive_counts(good: bytes) -> None:
    for place in range(0, len(good), 397):
        changed = bytearray(good)
        changed[place] ^= 1
        with pytest.raises(ContractError):
            ModelFile.parse(bytes(changed))


def name_in_front_differs(data: bytearray) -> None:
    place = data.index(b"archive/data/weights/weight_0")
    data[place : place + 29] = b"archive/data/weights/weight_1"


def method_differs(data: bytearray) -> None:
    data[8:10] = struct.pack("<H", 8)


def size_differs(data: bytearray) -> None:
    data[18:22] = struct.pack("<I", 5)


def bytes_in_front(data: bytearray) -> None:
    data[0:0] = b"PK\x03\x04" + b"\0" * 60


def with_a_comment(data: bytearray) -> None:
    data[-2:] = struct.pack("<H", 4)
    data += b"note"


@pytest.mark.parametrize(
    "change", [name_in_front_differs, method_differs, size_differs, bytes_in_front, with_a_comment]
)
def test_headers_that_contradict_the_directory_are_refused(change: Any, good: bytes) -> None:
    members, contract = members_of(good)
    data = bytearray(packed(members))
    change(data)
    with pytest.raises(ContractError, match="damaged or truncated"):
        archive.seal(bytes(data), contract)
    with pytest.raises(ContractError, match="does not end with its directory"):
        ModelFile.parse(good + b"\0" * 30)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["archive/../../evil"], "not a plain path"),
        (["/etc/evil"], "not a plain path"),
        (["archive\\evil"], "not a plain path"),
        (["archive/a\nb"], "not a plain path"),
        (["archive/MODELS/policy_step.json"], "same name"),
    ],
)
def test_names_that_lead_elsewhere_or_clash_are_refused(names: list[str], reason: str, good: bytes) -> None:
    with pytest.raises(ContractError, match=reason):
        resealed(good, lambda members: members.update(dict.fromkeys(names, b"x")))


def test_an_archive_that_unpacks_to_very_much_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/zeros", b"\0" * (100 * 2**20))
    with pytest.raises(ContractError, match=r"would unpack to 104857600 bytes"):
        ModelFile.parse(buffer.getvalue())


def test_a_file_that_is_no_archive_is_refused_without_torch() -> None:
    """Importing torch takes seconds, and the file alone says that it is not for torch."""
    code = """
import sys
from exploy.contract import Contract, Port
from exploy.errors import ContractError
from exploy.runtime.pt2.steps import open_steps
contract = Contract(1, (Port("x", "float32", (1,)),), (), (), backend="torch_export")
try:
    open_steps(b"no archive", contract)
except ContractError as error:
    print(error, "torch" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "File is not a zip file" in result.stdout and result.stdout.endswith("False\n"), result.stderr
