"""The good files and logs that are damaged. Made once, then read by every worker without torch and onnx."""

import pickle
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

Corpus = dict[str, list[tuple[str, bytes]]]
"""By kind of thing: its ending, and its bytes."""


def make(kinds: Iterable[str]) -> Corpus:
    """Make what some kinds of cases start from."""
    from tests.support.files import gather_file, overflowing_file, reciprocal_file, recurrent_file, robot_file

    files = [robot_file(), recurrent_file(), reciprocal_file(), overflowing_file(), gather_file(), _functions_file()]
    found: Corpus = {"file": [(".onnx", data) for data in files], "log": [], "archive": []}
    if "log" in kinds:
        found["log"] = _logs(robot_file())
    if "archive" in kinds:
        found["archive"] = [(".pt2", _torch_file())]
    return found


def save(corpus: Corpus, path: Path) -> None:
    """Write a corpus for the workers."""
    path.write_bytes(pickle.dumps(corpus))


def load(path: Path) -> Corpus:
    """Read what save() wrote."""
    found: Corpus = pickle.loads(path.read_bytes())
    return found


def _functions_file() -> bytes:
    """A file with a function, a subgraph, and a constant."""
    import onnx
    from onnx import helper

    from exploy.contract import Contract, Port
    from tests.support.files import made_by_hand

    contract = Contract(1, (Port("x", "float32", (1, 2)),), (Port("y", "float32", (1, 2)),), ())
    out = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [1, 2])
    branches = {
        f"{name}_branch": helper.make_graph([helper.make_node(operator, ["t"], ["z"])], name, [], [out])
        for name, operator in (("then", "Neg"), ("else", "Abs"))
    }
    nodes = [
        helper.make_node("Twice", ["x"], ["t"], domain="local"),
        helper.make_node("Constant", [], ["c"], value=helper.make_tensor("v", onnx.TensorProto.BOOL, [], [True])),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    imports = [helper.make_opsetid("", 20)]
    twice = helper.make_function("local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], imports)

    def with_function(model: onnx.ModelProto) -> None:
        model.functions.append(twice)
        model.opset_import.append(helper.make_opsetid("local", 1))

    return made_by_hand(nodes, contract, change=with_function)


def _logs(policy: bytes) -> list[tuple[str, bytes]]:
    """A finished log of each format, and one of a process that was killed."""
    from exploy.runtime import Controller, Recorder
    from tests.support.files import robot_inputs

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for ending in (".npz", ".mcap"):
            path = Path(folder) / f"run{ending}"
            controller = Controller.load(policy)
            with Recorder(path, controller):
                controller.ramp_in("joint_targets", np.zeros((1, 3), np.float32), 0.02)
                for tick in range(6):
                    controller.step(robot_inputs(tick))
                controller.reset()
                controller.step(robot_inputs())
            found.append((ending, path.read_bytes()))
            if ending == ".npz":
                found.append((".npz.part", _unfinished(path)))
    return found


def _unfinished(path: Path) -> bytes:
    """The same log as it was before it was closed, in three parts."""
    from exploy.runtime.logs.formats import load_log
    from exploy.runtime.logs.npz import NpzSink

    log = load_log(path)
    columns = [log.tick, log.time, log.duration, *log.inputs.values(), *log.outputs.values()]
    rows = np.empty(log.ticks, log.header.row_type)
    for name, column in zip(rows.dtype.names or (), columns, strict=True):
        rows[name] = column
    sink = NpzSink(path.with_name("killed.npz"), log.header)
    sink.write(rows[:3], [event for event in log.events if event.row < 3])
    sink.write(rows[3:], [event for event in log.events if event.row >= 3])
    sink.sync()
    return path.with_name("killed.npz.part").read_bytes()


def _torch_file() -> bytes:
    from exploy import export
    from tests.support.environments import make_actor
    from tests.support.robot import Robot

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "policy.pt2"
        return export(Robot(), make_actor(13, 3), target, strict=False).path.read_bytes()
