"""Files for controllers: exported ones, each made once a test run, and small ones made by hand."""

import functools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from exploy.contract import METADATA_KEY, Contract, Port, PortKind, StoredMemory, encode_array
from exploy.demo.cart_pole import CartPole
from exploy.demo.exportable import ExportableCartPole
from exploy.demo.policy import load_trained_actor
from exploy.exporter.core.exporter import export_environment_as_onnx
from exploy.runtime.onnx.file import seal
from tests.support.environments import make_actor
from tests.support.robot import Robot, RobotInSimulation

OPSET, IR_VERSION = 20, 10


def exported(env: Any, actor: Any, **options: Any) -> bytes:
    """The bytes of an exported file."""
    with tempfile.TemporaryDirectory() as folder:
        return export_environment_as_onnx(env, actor, folder, **options).read_bytes()


@functools.cache
def robot_file() -> bytes:
    """The robot with named joints."""
    return exported(Robot(), make_actor(13, 3))


@functools.cache
def file_of_robot_in_simulation() -> bytes:
    """The same robot with inputs that it cannot have."""
    return exported(RobotInSimulation(), make_actor(13, 3))


@functools.cache
def cart_pole_file() -> bytes:
    """The demo."""
    return exported(ExportableCartPole(CartPole(seed=1)), load_trained_actor())


def write(data: bytes, folder: Path, name: str = "policy.onnx") -> Path:
    """Put a file into a folder."""
    path = folder / name
    path.write_bytes(data)
    return path


def robot_inputs(seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs for the robot, within their limits."""
    rng = np.random.default_rng(seed)
    shapes = {"joints.pos": (1, 4), "joints.vel": (1, 4), "cmd": (1, 2)}
    return {name: rng.uniform(-0.9, 0.9, shape).astype(np.float32) for name, shape in shapes.items()}


def made_by_hand(
    nodes: Sequence[onnx.NodeProto],
    contract: Contract,
    weights: dict[str, np.ndarray] | None = None,
    change: Callable[[onnx.ModelProto], None] | None = None,
) -> bytes:
    """A sealed file with the ports of a contract."""
    inputs, outputs = (
        [
            helper.make_tensor_value_info(port.name, helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype)), port.shape)
            for port in ports
        ]
        for ports in (contract.inputs, contract.outputs)
    )
    initializers = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "by_hand", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    helper.set_model_props(model, {METADATA_KEY: contract.to_json()})
    if change is not None:
        change(model)
    return seal(model.SerializeToString())


def reciprocal_file(output: dict[str, Any] | None = None, **port: Any) -> bytes:
    """One rate, no memory: y = 1 / x, which is not finite where x is zero."""
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", (1, 2), **port),),
        outputs=(Port("y", "float32", (1, 2), **(output or {})),),
        memories=(),
    )
    return made_by_hand([helper.make_node("Reciprocal", ["x"], ["y"])], contract)


def overflowing_file() -> bytes:
    """One rate: y = x, and a memory that adds x up, which nothing shows until it is no longer finite."""
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", (1,)), Port("total_in", "float32", (1,), kind=PortKind.MEMORY)),
        outputs=(Port("y", "float32", (1,)), Port("total_out", "float32", (1,), kind=PortKind.MEMORY)),
        memories=(StoredMemory("total", "total_in", "total_out", encode_array(np.zeros(1, np.float32))),),
    )
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Add", ["total_in", "x"], ["total_out"])]
    return made_by_hand(nodes, contract)


def gather_file() -> bytes:
    """One rate: y = table[index], which cannot be computed where the index is out of range."""
    contract = Contract(
        decimation=1,
        inputs=(Port("index", "int64", (1,)),),
        outputs=(Port("y", "float32", (1,)),),
        memories=(),
    )
    table = {"table": np.array([1.0, 2.0, 3.0], dtype=np.float32)}
    return made_by_hand([helper.make_node("Gather", ["table", "index"], ["y"])], contract, table)


def recurrent_file(with_is_init: bool = True, batch: int | str = 1) -> bytes:
    """One rate and no step count: h_out = h + x and y = 2 h_out, where h is h_in, or 0 where is_init says so.

    The memory starts from 10, so that it shows whether the start value or is_init was used.
    """
    shape = (batch, 2)
    is_init = (Port("is_init", "bool", (batch, 1), kind=PortKind.IS_INIT),) if with_is_init else ()
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", shape), Port("h_in", "float32", shape, kind=PortKind.MEMORY), *is_init),
        outputs=(Port("y", "float32", shape), Port("h_out", "float32", shape, kind=PortKind.MEMORY)),
        memories=(StoredMemory("h", "h_in", "h_out", encode_array(np.full((1, 2), 10.0, np.float32))),),
    )
    nodes = [
        helper.make_node("Where", ["is_init", "zero", "h_in"], ["h"])
        if with_is_init
        else helper.make_node("Identity", ["h_in"], ["h"]),
        helper.make_node("Add", ["h", "x"], ["h_out"]),
        helper.make_node("Mul", ["h_out", "two"], ["y"]),
    ]
    weights = {"two": np.array(2.0, np.float32)} | ({"zero": np.array(0.0, np.float32)} if with_is_init else {})
    return made_by_hand(nodes, contract, weights)


class FakeClock:
    """Nanoseconds that go on only when they are told to."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(1e9 * seconds)
