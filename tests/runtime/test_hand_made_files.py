"""Files that no exporter of ours made: whatever the contract says is what happens, with two sessions and with one."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from exploy.contract import Contract, Port, PortKind, StoredMemory, encode_array
from exploy.errors import FaultError, RuntimeInputError
from exploy.runtime import Controller, Guards
from tests.support.environments import make_actor
from tests.support.files import FakeClock, exported, made_by_hand, robot_file, robot_inputs
from tests.support.robot import Robot
from tests.support.slow_backend import steps_that_wait


def identity_file(dtype: str = "float32", outputs: int = 1, **port: Any) -> bytes:
    """One rate: every output is x; the port options are those of the input and of the middle output."""
    names = [f"y{index}" for index in range(outputs)]
    contract = Contract(
        decimation=1,
        inputs=(Port("x", dtype, (1, 2), **port),),
        outputs=tuple(
            Port(name, dtype, (1, 2), finite=port.get("finite", True) or index != outputs // 2)
            for index, name in enumerate(names)
        ),
        memories=(),
    )
    return made_by_hand([helper.make_node("Identity", ["x"], [name]) for name in names], contract)


def two_rate_file(decimation: int = 2, branch_weights: bool = False, computed: tuple[str, ...] = ("y",)) -> bytes:
    """y = x + 1 on policy steps and x - 1 on sub-steps, chosen by an `If`."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("a", "b")]
    one = helper.make_tensor("own_one", TensorProto.FLOAT, [1], [1.0])
    own: dict[str, Any] = {"initializer": [one]} if branch_weights else {}
    weight = "own_one" if branch_weights else "one"
    branches = {
        "then_branch": helper.make_graph([helper.make_node("Add", ["x", weight], ["a"])], "then", [], ports[:1], **own),
        "else_branch": helper.make_graph([helper.make_node("Sub", ["x", weight], ["b"])], "else", [], ports[1:], **own),
    }
    nodes = [
        helper.make_node("Mod", ["count", "decimation"], ["phase"]),
        helper.make_node("Equal", ["phase", "zero"], ["is_policy_step"]),
        helper.make_node("If", ["is_policy_step"], ["y"], **branches),
    ]
    contract = Contract(
        decimation=decimation,
        inputs=(Port("count", "int32", (), kind=PortKind.STEP_COUNT), Port("x", "float32", (1,))),
        outputs=(Port("y", "float32", (1,)),),
        memories=(),
        sub_step_inputs={name: ["x"] for name in computed},
    )
    weights = {"decimation": np.array(decimation, np.int32), "zero": np.array(0, np.int32)}
    return made_by_hand(nodes, contract, weights | ({} if branch_weights else {"one": np.ones(1, np.float32)}))


BOTH = pytest.mark.parametrize("split", [True, False], ids=["two sessions", "one session"])


@BOTH
@pytest.mark.parametrize("branch_weights", [True, False])
@pytest.mark.parametrize("decimation", [2, 3])
def test_an_if_by_hand_runs_either_way(decimation: int, branch_weights: bool, split: bool) -> None:
    controller = Controller.load(two_rate_file(decimation, branch_weights), split=split)
    got = [controller.step({"x": [10.0]})["y"].item() for _ in range(2 * decimation)]
    assert got == ([11.0] + [9.0] * (decimation - 1)) * 2


@BOTH
def test_a_sub_step_that_computes_nothing_holds_everything(split: bool) -> None:
    controller = Controller.load(two_rate_file(3, computed=()), split=split)
    assert [controller.step({"x": [float(x)]})["y"].item() for x in range(6)] == [1, 1, 1, 4, 4, 4]


def test_a_graph_of_very_many_sub_steps_is_loaded_at_once() -> None:
    controller = Controller.load(two_rate_file(50_000))
    assert [controller.step({"x": [10.0]})["y"].item() for _ in range(3)] == [11, 9, 9]


@pytest.mark.parametrize("outputs", [1, 3, 4])
def test_outputs_that_need_not_be_finite_may_stand_between_others(outputs: int) -> None:
    controller = Controller.load(identity_file(outputs=outputs, finite=False), guards=Guards(limits="off"))
    for values in ([1.0, 2.0], [3.0, 4.0]):
        results = controller.step({"x": values})
        assert list(results) == [f"y{index}" for index in range(outputs)]
        assert all(value.tolist() == [values] for value in results.values())


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "uint8", "int32", "float64", "float16"])
@pytest.mark.parametrize("limits", [(0, None), (None, 100), (0, 1e30), ((0, None), (1, 100))])
def test_limits_hold_for_every_type(dtype: str, limits: Any) -> None:
    controller = Controller.load(identity_file(dtype, limits=limits))
    good = np.array([[1, 2]], dtype=dtype)
    assert controller.step({"x": good})["y0"].tolist() == [[1, 2]]
    if limits == (None, 100):
        with pytest.raises(FaultError, match=r"its limits are .* and 100"):
            controller.step({"x": np.array([[1, 101]], dtype=dtype)})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_largest_values_are_fine(dtype: str) -> None:
    largest = np.array([[np.finfo(dtype).max, np.finfo(dtype).min]], dtype=dtype)
    controller = Controller.load(identity_file(dtype))
    np.testing.assert_array_equal(controller.step({"x": largest})["y0"], largest)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float64"])
def test_every_type_goes_through(dtype: str) -> None:
    controller = Controller.load(identity_file(dtype, outputs=2))
    values = np.array([[0, 1]], dtype=dtype)
    for result in controller.step({"x": values}).values():
        np.testing.assert_array_equal(result, values, strict=True)


def test_single_numbers_and_empty_arrays_go_through() -> None:
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", (), limits=(-1.0, 1.0)), Port("none", "float32", (0,))),
        outputs=(Port("y", "float32", ()), Port("nothing", "float32", (0,))),
        memories=(),
    )
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Neg", ["none"], ["nothing"])]
    controller = Controller.load(made_by_hand(nodes, contract))
    results = controller.step({"x": 0.5, "none": []})
    assert results["y"].shape == () and results["y"] == -0.5 and results["nothing"].shape == (0,)
    with pytest.raises(FaultError, match=r"element \[\], is 3\.0; its limits are -1 and 1"):
        controller.step({"x": np.float32(3), "none": []})


def test_a_memory_that_starts_as_not_finite_is_not_guarded() -> None:
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", (1,)), Port("best_in", "float32", (1,), kind=PortKind.MEMORY)),
        outputs=(Port("best_out", "float32", (1,), kind=PortKind.MEMORY), Port("y", "float32", (1,))),
        memories=(StoredMemory("best", "best_in", "best_out", encode_array(np.full(1, np.inf, np.float32))),),
    )
    nodes = [helper.make_node("Min", ["x", "best_in"], ["best_out"]), helper.make_node("Identity", ["best_out"], ["y"])]
    controller = Controller.load(made_by_hand(nodes, contract))
    assert [controller.step({"x": [value]})["y"].item() for value in (3.0, 5.0, 1.0)] == [3, 3, 1]


# -- what users give ------------------------------------------------------------------------------------------


class Hostile:
    """Raises when it is turned into an array."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("not today")


@pytest.mark.parametrize("guards", [Guards(), Guards.off()], ids=["on", "off"])
@pytest.mark.parametrize(
    "values",
    [
        np.zeros(1),
        np.zeros((1, 2)),
        [[1]],
        "x",
        {"x"},
        None,
        3,
        {"x": Hostile()},
        {"x": object()},
        {"x": [[1.0], [2.0, 3.0]]},
        {"x": {"y": 1}},
        {"x": [1j, 2j]},
        {"x": ["a", "b"]},
    ],
)
def test_whatever_is_given_ends_in_a_fault_and_never_in_another_error(values: Any, guards: Guards) -> None:
    controller = Controller.load(identity_file(), guards=guards)
    controller.step({"x": [1.0, 2.0]})
    with pytest.raises(FaultError) as caught:
        controller.step(values)
    assert caught.value.fault.guard == "inputs" and controller.fault is not None


def test_tensors_of_torch_are_taken() -> None:
    import torch

    controller = Controller.load(identity_file())
    assert controller.step({"x": torch.tensor([[1.0, 2.0]], requires_grad=True)})["y0"].tolist() == [[1, 2]]
    with pytest.raises(FaultError, match="BFloat16"):
        controller.step({"x": torch.zeros(1, 2, dtype=torch.bfloat16)})


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 0},
        {"threads": "many"},
        {"threads": 1.5},
        {"guards": "off"},
        {"sizes": 5},
        {"max_age": 5},
        {"hz": "fast"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(RuntimeInputError):
        Controller.load(identity_file(), **options)


def test_an_age_without_end_is_allowed_and_ages_must_be_seconds() -> None:
    controller = Controller.load(robot_file(), max_age={"cmd": float("inf")}, hz=200, guards=Guards(rate="off"))
    controller.step(robot_inputs())
    with pytest.raises(FaultError, match="ages must be a dictionary"):
        controller.step(robot_inputs(), ages=5)  # type: ignore[arg-type]


def test_what_is_registered_and_not_in_the_file_may_be_given() -> None:
    import torch

    from exploy.exporter.core.components import Input

    class WithThermometer(Robot):
        def __init__(self) -> None:
            super().__init__()
            self.heat = torch.zeros(1, 1)
            self.context_manager().add_component(Input("heat", lambda: self.heat))

    with pytest.warns(UserWarning, match="heat"):
        data = exported(WithThermometer(), make_actor(13, 3))
    controller = Controller.load(data, max_age={"heat": 1.0}, hz=200, guards=Guards(rate="off"))
    values = robot_inputs() | {"heat": np.zeros((1, 1), np.float32)}
    controller.step(values, ages={"heat": 0.5})
    controller.refreshed("heat")
    assert "heat" not in controller.inputs


def test_not_a_number_that_reaches_an_index_is_called_by_its_name() -> None:
    contract = Contract(
        decimation=1,
        inputs=(Port("x", "float32", (1,)),),
        outputs=(Port("y", "float32", (1,)),),
        memories=(),
    )
    nodes = [
        helper.make_node("Cast", ["x"], ["index"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "index"], ["y"]),
    ]
    controller = Controller.load(made_by_hand(nodes, contract, {"table": np.arange(3, dtype=np.float32)}))
    with pytest.raises(FaultError, match=r"input 'x'.*nan") as caught:
        controller.step({"x": [np.nan]})
    assert caught.value.fault.guard == "finite"


def test_an_overrun_is_of_the_tick_that_overran() -> None:
    clock = FakeClock()
    with steps_that_wait(lambda: clock.advance(0.02)):
        controller = Controller.load(identity_file(), hz=100, clock=clock, guards=Guards(patience=0))
    with pytest.raises(FaultError, match="tick 0: the step took 20"):
        controller.step({"x": [1.0, 2.0]})
