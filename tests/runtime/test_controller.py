"""The controller: what it computes, who owns its arrays, and what belongs to which thread."""

import contextlib
import copy
import gc
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exploy.contract import Contract
from exploy.errors import ContractError, FaultError, RuntimeInputError, ThreadError, VerificationError
from exploy.runtime import Controller, Guards
from exploy.runtime.onnx.session import open_session
from tests.support.files import (
    cart_pole_file,
    reciprocal_file,
    recurrent_file,
    robot_file,
    robot_inputs,
    write,
)
from tests.support.robot import ACTUATORS, DAMPING, JOINTS, STIFFNESS


@pytest.fixture
def controller() -> Controller:
    return Controller.load(robot_file())


class Reference:
    """The file run by hand: the step count, and memories fed back."""

    def __init__(self, data: bytes):
        self.session = open_session(data)
        self.contract = Contract.from_json(self.session.get_modelmeta().custom_metadata_map["exploy.contract"])
        self.memories = {memory.input: memory.initial_value() for memory in self.contract.memories}
        self.count = 0

    def step(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        feeds = values | self.memories | {"ctx.step_count": np.array(self.count, dtype=np.int32)}
        names = [item.name for item in self.session.get_outputs()]
        results = dict(zip(names, self.session.run(None, feeds), strict=True))
        self.memories = {memory.input: results[memory.output] for memory in self.contract.memories}
        self.count += 1
        return results


# -- what it computes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [True, False], ids=["two sessions", "one session"])
def test_it_counts_ticks_from_zero_and_feeds_memories_back(split: bool) -> None:
    controller, reference = Controller.load(robot_file(), split=split), Reference(robot_file())
    for tick in range(23):
        values = robot_inputs(tick)
        got, expected = controller.step(values), reference.step(values)
        np.testing.assert_allclose(got["joint_targets"], expected["joint_targets"], atol=1e-6)
        if tick % 4 == 0:
            np.testing.assert_allclose(got["actions"], expected["actions"], atol=1e-6)
    assert controller.ticks == 23


@pytest.mark.parametrize("split", [True, False], ids=["two sessions", "one session"])
def test_observations_and_actions_stay_those_of_the_last_policy_step(split: bool) -> None:
    controller = Controller.load(robot_file(), split=split)
    first = controller.step(robot_inputs(0))
    for tick in range(1, 4):
        results = controller.step(robot_inputs(tick))
        assert results["actions"].any() and results["obs"].any()
        np.testing.assert_array_equal(results["actions"], first["actions"])
        np.testing.assert_array_equal(results["obs"], first["obs"])
    assert not np.array_equal(controller.step(robot_inputs(4))["obs"], first["obs"])


def test_the_first_tick_after_a_reset_runs_the_policy_from_the_stored_memories(controller: Controller) -> None:
    first = controller.step(robot_inputs(0))
    controller.step(robot_inputs(1))
    controller.reset()
    assert controller.ticks == 0
    again = controller.step(robot_inputs(0))
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value)


def test_the_fast_way_gives_the_same(controller: Controller) -> None:
    other = Controller.load(robot_file())
    for tick in range(9):
        values = robot_inputs(tick)
        expected = other.step(values)
        for name, value in values.items():
            controller.inputs[name][:] = value
        controller.tick()
        for name, value in expected.items():
            np.testing.assert_array_equal(controller.outputs[name], value)


def test_one_rate_and_memories_of_any_name_work() -> None:
    controller = Controller.load(recurrent_file(with_is_init=False))
    x = np.array([[1.0, -1.0]], dtype=np.float32)
    assert [controller.step({"x": x})["y"].tolist() for _ in range(3)] == [[[22, 18]], [[24, 16]], [[26, 14]]]
    controller.reset()
    assert controller.step({"x": x})["y"].tolist() == [[22, 18]]


def test_is_init_is_set_on_the_first_tick_after_a_reset_and_not_asked_for() -> None:
    controller = Controller.load(recurrent_file())
    assert list(controller.inputs) == ["x"]
    x = np.array([[1.0, -1.0]], dtype=np.float32)
    assert [controller.step({"x": x})["y"].tolist() for _ in range(4)] == [[[2 * n, -2 * n]] for n in (1, 2, 3, 4)]
    controller.reset()
    assert controller.step({"x": x})["y"].tolist() == [[2, -2]]


def test_sizes_that_the_file_leaves_open_are_one_or_chosen() -> None:
    data = recurrent_file(batch="batch")
    assert Controller.load(data).inputs["x"].shape == (1, 2)
    controller = Controller.load(data, sizes={"batch": 3})
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(controller.step({"x": x})["y"], 2 * x)
    with pytest.raises(RuntimeInputError, match=r"batch.*got 2 for 'width'"):
        Controller.load(data, sizes={"width": 2})
    with pytest.raises(RuntimeInputError, match="got 0 for 'batch'"):
        Controller.load(data, sizes={"batch": 0})


def test_more_threads_give_the_same() -> None:
    one, two = Controller.load(robot_file()), Controller.load(robot_file(), threads=2, spinning=True)
    for tick in range(5):
        np.testing.assert_allclose(
            one.step(robot_inputs(tick))["actions"], two.step(robot_inputs(tick))["actions"], atol=1e-6
        )


def test_ports_tell_what_they_are(controller: Controller) -> None:
    assert list(controller.inputs) == ["joints.pos", "joints.vel", "cmd"]
    assert list(controller.outputs) == ["actions", "obs", "joint_targets"]
    assert controller.ports["joints.vel"].names == tuple(JOINTS)
    assert controller.ports["cmd"].names == ("forward", "turn")
    assert controller.ports["joint_targets"].names == tuple(ACTUATORS)
    assert controller.gains["joint_targets"]["stiffness"].tolist() == STIFFNESS
    assert controller.gains["joint_targets"]["damping"].tolist() == DAMPING


# -- the self-test --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", [True, False])
def test_a_good_file_passes_its_self_test(split: bool) -> None:
    assert Controller.load(robot_file(), split=split).selftest() == 12
    assert Controller.load(cart_pole_file(), split=split).selftest() == 12


def test_the_self_test_does_not_disturb_a_run(controller: Controller) -> None:
    undisturbed = Controller.load(robot_file())
    for tick in range(9):
        controller.selftest()
        expected = undisturbed.step(robot_inputs(tick))["joint_targets"]
        np.testing.assert_array_equal(controller.step(robot_inputs(tick))["joint_targets"], expected)


def test_a_file_without_a_trace_cannot_test_itself() -> None:
    with pytest.raises(ContractError, match="no golden trace"):
        Controller.load(reciprocal_file()).selftest()


def test_the_self_test_names_the_output_that_differs(controller: Controller, monkeypatch: Any) -> None:
    trace = controller.contract.trace
    assert trace is not None
    expected = trace.output_arrays()
    expected["joint_targets"][5, 0, 2] += 0.01
    monkeypatch.setattr(type(trace), "output_arrays", lambda self: expected)
    with pytest.raises(VerificationError, match=r"output 'joint_targets', element \[0, 2\].*tick 5"):
        controller.selftest()


# -- arrays ---------------------------------------------------------------------------------------------------


def test_returned_arrays_belong_to_the_caller(controller: Controller) -> None:
    results = controller.step(robot_inputs(0))
    kept = {name: value.copy() for name, value in results.items()}
    for value in results.values():
        assert value.flags.owndata and value.flags.writeable
    controller.step(robot_inputs(1))
    controller.reset()
    for name, value in results.items():
        np.testing.assert_array_equal(value, kept[name])
    results["joint_targets"][:] = 7.0
    assert not (controller.outputs["joint_targets"] == 7.0).any()


def test_inputs_that_are_given_are_not_written_to(controller: Controller) -> None:
    values = robot_inputs(0)
    for value in values.values():
        value.flags.writeable = False
    kept = {name: value.copy() for name, value in values.items()}
    controller.step(values)
    controller.reset()
    for name, value in values.items():
        np.testing.assert_array_equal(value, kept[name])


def test_a_reset_writes_neither_to_inputs_nor_to_outputs(controller: Controller) -> None:
    controller.step(robot_inputs(0))
    kept = [array.copy() for array in (*controller.inputs.values(), *controller.outputs.values())]
    controller.reset()
    for array, before in zip((*controller.inputs.values(), *controller.outputs.values()), kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_buffers_stay_the_same_arrays(controller: Controller) -> None:
    inputs, outputs = dict(controller.inputs), dict(controller.outputs)
    controller.bind("joints.pos", names=JOINTS[::-1])
    controller.step(robot_inputs(0))
    controller.reset()
    assert all(controller.inputs[name] is array for name, array in inputs.items())
    assert all(controller.outputs[name] is array for name, array in outputs.items())


def test_a_buffer_cannot_be_replaced_and_outputs_cannot_be_written(controller: Controller) -> None:
    other = {"cmd": np.zeros((1, 2), np.float32)}
    for replace in (
        lambda: controller.inputs.__setitem__("cmd", other["cmd"]),
        lambda: controller.inputs.update(other),
        lambda: controller.inputs.__ior__(other),
        lambda: controller.inputs.setdefault("more", other["cmd"]),
        lambda: controller.inputs.pop("cmd"),
        controller.outputs.clear,
    ):
        with pytest.raises(TypeError, match=r"write into them: controller\.inputs\[name\]\[:\] = value"):
            replace()
    with pytest.raises(AttributeError):
        controller.inputs = other  # type: ignore[misc, assignment]
    with pytest.raises(ValueError, match="read-only"):
        controller.outputs["joint_targets"][:] = 0.0


def test_values_may_come_without_the_batch_in_any_layout_or_as_lists(controller: Controller) -> None:
    expected = controller.step(robot_inputs(0))
    values: dict[str, Any] = dict(robot_inputs(0))
    doubled = np.repeat(values["joints.pos"], 2, axis=1)
    for changed in (
        {name: value[0] for name, value in values.items()},
        {name: value.tolist() for name, value in values.items()},
        values | {"joints.pos": doubled[:, ::2]},
    ):
        controller.reset()
        got = controller.step(changed)
        np.testing.assert_array_equal(got["joint_targets"], expected["joint_targets"])


def test_outputs_can_be_copied_and_a_controller_cannot(controller: Controller) -> None:
    controller.step(robot_inputs())
    copied = copy.deepcopy(controller.outputs)
    assert type(copied) is dict
    np.testing.assert_array_equal(copied["joint_targets"], controller.outputs["joint_targets"])
    assert not np.shares_memory(copied["joint_targets"], controller.outputs["joint_targets"])
    with pytest.raises(TypeError, match="load the file again"):
        copy.copy(controller)


def test_an_interrupt_in_the_middle_of_ticks_leaves_it_usable() -> None:
    controller = Controller.load(robot_file())
    values = robot_inputs()
    expected = controller.step(values)["joint_targets"]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in np.linspace(1e-3, 2e-3, 40):
            signal.setitimer(signal.ITIMER_REAL, float(delay))
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    controller.step(values)
            controller.reset()
            np.testing.assert_array_equal(controller.step(values)["joint_targets"], expected)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_tick_leaves_no_objects_behind(controller: Controller) -> None:
    for name, value in robot_inputs().items():
        controller.inputs[name][:] = value
    for _ in range(100):
        controller.tick()
    gc.collect()
    gc.disable()
    try:
        before, counted = sys.getallocatedblocks(), gc.get_count()[0]
        for _ in range(1000):
            controller.tick()
        after, counted_after = sys.getallocatedblocks(), gc.get_count()[0]
    finally:
        gc.enable()
    assert after - before < 100
    assert counted_after - counted < 100


# -- threads --------------------------------------------------------------------------------------------------


def in_thread(function: Any) -> BaseException | None:
    """What a function raises in a thread of its own."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None


def test_a_second_thread_is_refused_until_the_controller_is_handed_over(controller: Controller) -> None:
    controller.step(robot_inputs(0))
    for use in (controller.tick, lambda: controller.step(robot_inputs(1))):
        assert isinstance(in_thread(use), ThreadError)
    assert controller.ticks == 1
    controller.reset()
    assert in_thread(lambda: controller.step(robot_inputs(0))) is None
    with pytest.raises(ThreadError, match="second thread"):
        controller.tick()


def test_it_can_be_prepared_in_one_thread_and_run_in_another(controller: Controller) -> None:
    controller.selftest()
    controller.bind("joints.pos", JOINTS)
    controller.reset()
    assert in_thread(lambda: controller.step(robot_inputs(0))) is None


def test_a_reset_within_a_tick_is_refused() -> None:
    seen: list[BaseException | None] = []

    def on_fault(fault: object) -> None:
        seen.append(in_thread(own.reset))

    own = Controller.load(reciprocal_file({"unit": "rad"}), guards=Guards(finite="call"), on_fault=on_fault)
    own.step({"x": [1.0, 1.0]})
    own.step({"x": [0.0, 1.0]})
    assert isinstance(seen[0], ThreadError)
    own.reset()
    assert own.step({"x": [1.0, 2.0]})["y"].tolist() == [[1.0, 0.5]]


def test_a_reset_while_inputs_are_taken_is_refused(controller: Controller) -> None:
    seen: list[BaseException | None] = []

    class Slow:
        def __array__(self, *_: object, **__: object) -> np.ndarray:
            seen.append(in_thread(controller.reset))
            return np.zeros((1, 2), np.float32)

    controller.step(robot_inputs(0))
    controller.step(robot_inputs(1) | {"cmd": Slow()})
    assert isinstance(seen[0], ThreadError)
    assert controller.ticks == 2


def test_threads_that_fight_for_it_are_refused_and_never_corrupt_it() -> None:
    controller = Controller.load(robot_file())
    refused: list[bool] = []
    barrier = threading.Barrier(4)

    def run() -> None:
        barrier.wait()
        for tick in range(200):
            try:
                controller.step(robot_inputs(tick))
            except ThreadError:
                refused.append(True)
                return

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 3
    assert controller.ticks == 200


# -- statistics -----------------------------------------------------------------------------------------------


def test_statistics_tell_how_long_ticks_took(controller: Controller) -> None:
    for tick in range(10):
        controller.step(robot_inputs(tick))
    stats = controller.stats
    assert stats.ticks == 10 and stats.overruns == 0
    assert (stats.policy.count, stats.sub_step.count) == (3, 7)
    assert 0 < stats.p50 <= stats.p99 <= stats.worst < 10
    assert "10 ticks: p50" in str(stats)
    controller.reset()
    assert controller.stats.ticks == 10


# -- files ----------------------------------------------------------------------------------------------------


def test_a_path_may_be_a_string_or_a_path(tmp_path: Path) -> None:
    path = write(robot_file(), tmp_path)
    assert Controller.load(path).selftest() == Controller.load(str(path)).selftest() == 12


def test_loading_writes_nothing(tmp_path: Path) -> None:
    path = write(robot_file(), tmp_path)
    Controller.load(path).step(robot_inputs())
    assert [item.name for item in tmp_path.iterdir()] == ["policy.onnx"]


def test_an_unset_input_is_noticed_by_the_fast_way(controller: Controller) -> None:
    controller.inputs["joints.pos"][:] = 0.0
    controller.inputs["cmd"][:] = 0.0
    with pytest.raises(FaultError, match=r"joints\.vel.*nan.*ever written"):
        controller.tick()
