"""Numbers that sensors should not give: results as of onnxruntime or torch, or a status that changes nothing."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import helper

from exploy.codegen.program import Program, write_program
from exploy.comparison import difference
from exploy.contract import Contract, Port, PortKind, StoredMemory, encode_array
from exploy.runtime.engine import Parts
from exploy.runtime.model_file import ModelFile
from exploy.verify.stepped import SteppedRunners, Values, stepped_file
from tests.support.c_compilers import require_tool
from tests.support.c_samples import GridRobot, Recurrent, Transformer, sample, sample_archive, sample_program
from tests.support.c_ticks import Computed, Tick, compile_ticks, random_ticks, read_ticks, run_ticks
from tests.support.files import made_by_hand

SPECIAL = [np.nan, np.inf, -np.inf, np.finfo(np.float32).max, -np.finfo(np.float32).max, 1e-40, -1e-40, -0.0]
NETWORKS = {"stacked lstm alone": torch.nn.LSTM, "stacked gru alone": torch.nn.GRU}  # onnxruntime loses NaN in them


def with_one_special_value(contract: Contract, values: Values) -> Iterator[tuple[str, Values]]:
    """Each special value at one element of each float input and memory."""
    ports = [*Parts.of(contract).inputs, *(port for port in contract.inputs if port.kind == PortKind.MEMORY)]
    for port in ports:
        if np.dtype(port.dtype).kind != "f":
            continue
        for number, value in enumerate(SPECIAL):
            array = values[port.name].copy()
            array.reshape(-1)[number % array.size] = value
            yield f"{value} at {port.name}", values | {port.name: array}


def start_of(contract: Contract) -> Values:
    """Inputs of a random tick, and memories at their start."""
    tick = next(iter(random_ticks(contract, 1)))
    values = dict(tick.inputs) | {item.input: np.array(item.initial_value()) for item in contract.memories}
    return values | {port.name: np.full(port.fixed_shape(), False) for port in Parts.of(contract).is_init}


@pytest.mark.parametrize("kind", ["demo", "mlp", "named joints", "tutorial", "camera"])
def test_special_values_give_what_onnxruntime_gives(kind: str) -> None:
    """NaN and infinities at the same places, and the same numbers but for rounding."""
    require_tool("gcc")
    contract = sample(kind).contract
    reference, compiled = stepped_file(sample(kind).data), stepped_file(sample_archive(kind))
    for step_count in range(min(2, contract.decimation)):
        for told, values in with_one_special_value(contract, start_of(contract)):
            expected, got = reference.run(step_count, values), compiled.run(step_count, values)
            for name, array in expected.items():
                found = difference(array, got[name], 1e-5, 1e-4, by_largest=True)
                assert found is None, f"{told}, step {step_count}: {name}, {found}"


@pytest.mark.parametrize("kind", NETWORKS)
def test_special_values_in_recurrent_networks_give_what_torch_gives(kind: str) -> None:
    require_tool("gcc")
    contract, compiled = sample(kind).contract, stepped_file(sample_archive(kind))
    policy = Recurrent(NETWORKS[kind]).eval()
    states = [memory.input for memory in contract.memories]
    for told, values in with_one_special_value(contract, start_of(contract)):
        given = {name: torch.from_numpy(array) for name, array in values.items()}
        with torch.no_grad():
            actions, states_after = policy.step((given["obs"],), tuple(given[name] for name in states))
        got = compiled.run(0, values)
        expected = {"actions": actions[0]} | {
            memory.output: state for memory, state in zip(contract.memories, states_after, strict=True)
        }
        for name, tensor in expected.items():
            assert difference(tensor.numpy(), got[name], 1e-5, 1e-4, by_largest=True) is None, f"{told}: {name}"


def test_special_values_in_a_transformer_give_what_torch_gives() -> None:
    require_tool("gcc")
    contract, compiled = sample("transformer").contract, stepped_file(sample_archive("transformer"))
    network = Transformer(5).eval()
    frames = next(item for item in contract.memories if "frames" in item.name)
    for told, values in with_one_special_value(contract, start_of(contract)):
        got = compiled.run(0, values)
        with torch.no_grad():
            expected = network(torch.from_numpy(got[frames.output])).numpy()
        assert difference(expected, got["actions"], 1e-5, 1e-4, by_largest=True) is None, told


def test_where_a_table_is_read_at_a_special_position_it_is_as_in_torch_or_a_status() -> None:
    """Infinite positions are not integers; torch gives whatever the processor does, and C says so."""
    require_tool("gcc")
    compiled = stepped_file(sample_archive("gathers, scatters, integers"))
    values = start_of(sample("gathers, scatters, integers").contract)
    for position in (0.5, -3.0, 7.0, 1e10, -1e10, 1e-40):
        values["position"] = np.array([[position, 0.4]], np.float32)
        assert agrees_with_torch(compiled, values), position
    for position in (np.nan, np.inf, -np.inf, 1e30):
        values["position"] = np.array([[position, 0.4]], np.float32)
        with pytest.raises(Exception, match="status 2: a number does not fit an integer"):
            compiled.run(0, values)


def agrees_with_torch(compiled: SteppedRunners, values: Values) -> bool:
    """Whether the memory of marks is what the environment computes."""
    env = GridRobot()
    env.position[:] = torch.from_numpy(values["position"])
    env.observe()
    marks = next(item.output for item in compiled.contract.memories if "marks" in item.name)
    return bool(np.array_equal(compiled.run(0, values)[marks], env.marks.numpy()))


def counting_file() -> bytes:
    """A memory adds up what a table has at an index, divided by an integer, plus a number as an integer."""
    contract = Contract(
        decimation=1,
        inputs=(
            Port("index", "int64", (1,)),
            Port("divisor", "int64", (1,)),
            Port("x", "float32", (1,)),
            Port("total_in", "int64", (1,), kind=PortKind.MEMORY),
        ),
        outputs=(Port("y", "int64", (1,)), Port("total_out", "int64", (1,), kind=PortKind.MEMORY)),
        memories=(StoredMemory("total", "total_in", "total_out", encode_array(np.array([5]))),),
    )
    nodes = [
        helper.make_node("Gather", ["table", "index"], ["found"]),
        helper.make_node("Div", ["found", "divisor"], ["part"]),
        helper.make_node("Cast", ["x"], ["whole"], to=7),
        helper.make_node("Add", ["part", "whole"], ["more"]),
        helper.make_node("Add", ["total_in", "more"], ["total_out"]),
        helper.make_node("Identity", ["more"], ["y"]),
    ]
    return made_by_hand(nodes, contract, {"table": np.array([10, 20, 30])})


def tick(index: int = 0, divisor: int = 1, x: float = 0.0) -> Tick:
    values = {"index": np.array([index]), "divisor": np.array([divisor]), "x": np.array([x], np.float32)}
    return Tick(False, values)


def counted(ticks: list[Tick], folder: Path) -> list[Computed]:
    file = ModelFile.parse(counting_file())
    program = write_program(file.data, file.contract, "counting")
    return read_ticks(run_ticks(compile_ticks(program, folder, require_tool("gcc")), program, ticks), program)


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (tick(index=3), 1),
        (tick(index=-4), 1),
        (tick(index=2**62), 1),
        (tick(index=-(2**63)), 1),
        (tick(x=np.nan), 2),
        (tick(x=np.inf), 2),
        (tick(x=-np.inf), 2),
        (tick(x=2.0**63), 2),
        (tick(x=-3e38), 2),
        (tick(divisor=0), 3),
    ],
)
def test_a_tick_with_a_status_changes_nothing(bad: Tick, status: int, tmp_path: Path) -> None:
    """Memories keep their values, and the next good tick is as if the bad one had not been."""
    first, failed, last = counted([tick(1, 3, 2.9), bad, tick(-1, -7, -2.9)], tmp_path)
    assert (first.status, failed.status, last.status) == (0, status, 0)
    assert first.outputs["y"] == 20 // 3 + 2 and failed.memories["total"] == first.memories["total"] == 5 + 8
    assert last.outputs["y"] == -4 - 2 and last.memories["total"] == 13 - 6


def test_the_largest_numbers_are_no_error(tmp_path: Path) -> None:
    (largest, lowest) = counted([tick(x=2.0**62), tick(x=-(2.0**63), divisor=-1)], tmp_path)
    assert (largest.status, lowest.status) == (0, 0)
    assert largest.outputs["y"] == 10 + 2**62 and lowest.outputs["y"] == 2**63 - 10  # sums wrap around


def test_a_status_of_a_robot_leaves_the_episode_as_it_was(tmp_path: Path) -> None:
    """Also which step is next: a bad tick where a policy step is due is as if it had not been."""
    kind = "gathers, scatters, integers"
    program, ticks = sample_program(kind), list(random_ticks(sample(kind).contract, 20))
    bad = Tick(False, dict(ticks[3].inputs) | {"position": np.full((1, 2), np.nan, np.float32)})
    path = compile_ticks(program, tmp_path, require_tool("gcc"))
    expected = computed(path, program, ticks)
    for place in (4, 8):
        got = computed(path, program, [*ticks[:place], bad, *ticks[place:]])
        failed = got.pop(place)
        assert failed.status == 2 and bits(failed.memories) == bits(expected[place - 1].memories)
        assert [bits(tick.memories) for tick in got] == [bits(tick.memories) for tick in expected]
        assert [bits(tick.outputs) for tick in got] == [bits(tick.outputs) for tick in expected]


def computed(path: Path, program: Program, ticks: list[Tick]) -> list[Computed]:
    return read_ticks(run_ticks(path, program, ticks), program)


def bits(arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}
