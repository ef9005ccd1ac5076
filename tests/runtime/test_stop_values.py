"""What each output is left with on a stop: decided by what is declared, and by nothing else."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from onnx import helper

from exploy.contract import Contract, Port, PortKind
from exploy.contract.declared_stop import declared_stop, with_on_stop
from exploy.errors import ContractError, RuntimeInputError
from exploy.runtime import Controller, Guards, serve_rate
from tests.support.files import FakeClock, made_by_hand, robot_file, robot_inputs

# name, kind, unit, what the output is left with; None where nothing is known and the user must say it
TABLE: list[tuple[str, str | None, str | None, str | None]] = [
    # the names that were guessed wrong: they decide nothing
    ("swivel_pos", None, None, None),
    ("travel", None, None, None),
    ("wrist_twist_pos", None, None, None),
    ("torque_limit", None, None, None),
    ("wheel_speed", None, None, None),
    ("tau", None, None, None),
    ("pwm", None, None, None),
    ("yaw_rate", None, None, None),
    ("rotor_rpm", None, None, None),
    ("actions", PortKind.ACTIONS, None, None),
    # and are held or zero as soon as something is declared
    ("swivel_pos", None, "rad", "hold"),
    ("travel", None, "mm", "hold"),
    ("wrist_twist_pos", "joint_position_target", "rad", "hold"),
    ("torque_limit", None, "N·m", "zero"),
    ("torque_limit", "torque_limit", None, None),
    ("wheel_speed", None, "rad/s", "zero"),
    ("tau", None, "Nm", "zero"),
    ("pwm", None, "V", "zero"),
    ("yaw_rate", None, "°/s", "zero"),
    ("rotor_rpm", None, "rev/min", "zero"),
    ("actions", PortKind.ACTIONS, "N·m", "zero"),
    ("velocity", None, "rad", "hold"),
    ("position", None, "rad/s", "zero"),
    # kinds of this file format
    ("q", "joint_position_target", None, "hold"),
    ("q", "joint_velocity_target", None, "zero"),
    ("q", "joint_effort_target", None, "zero"),
    ("q", "velocity_target", None, "zero"),
    ("q", "joint_position", None, "hold"),
    ("q", "joint_velocity", None, "zero"),
    ("q", "position", None, "hold"),
    ("q", "orientation", None, "hold"),
    ("q", "linear_velocity", None, "zero"),
    ("q", "angular_velocity", None, "zero"),
    ("q", "height", None, "hold"),
    ("q", "force", None, "zero"),
    ("q", "command", None, None),
    ("q", "joint_targets", None, None),
    ("q", "observations", None, None),
    # interfaces of ros2_control and ros_control, fields of ROS messages
    ("joint1/position", "position", None, "hold"),
    ("joint1/velocity", "velocity", None, "zero"),
    ("joint1/acceleration", "acceleration", None, "zero"),
    ("joint1/effort", "effort", None, "zero"),
    ("joint1/current", "current", None, "zero"),
    ("joint1/force", "forces", None, "zero"),
    ("q", "PositionJointInterface", None, "hold"),
    ("q", "hardware_interface/VelocityJointInterface", None, "zero"),
    ("q", "EffortJointInterface", None, "zero"),
    ("q", "effort_controllers/JointPositionController", None, None),
    ("cmd_vel", "twist", None, "zero"),
    ("q", "wrench", None, "zero"),
    ("q", "pose", None, "hold"),
    ("q", "temperature", None, None),
    ("q", "stiffness", None, None),
    # other spellings, and kinds that only contain a known word
    ("q", "JointPositions", None, "hold"),
    ("q", "Motor Torque", None, "zero"),
    ("q", "desired-joint-vel", None, "zero"),
    ("q", "steering_angle", None, "hold"),
    ("q", "yaw_rate", None, "zero"),
    ("q", "motor_voltage_command", None, "zero"),
    ("q", "position_error", None, None),
    ("q", "position_delta", None, None),
    ("q", "\u2206position", None, None),
    ("q", "velocity_limit", None, None),
    ("q", "position_velocity", None, None),
    ("q", "pwm", None, None),
    ("q", "duty_cycle", None, None),
    ("q", "", None, None),
    # units of lengths and angles
    ("q", None, "m", "hold"),
    ("q", None, "cm", "hold"),
    ("q", None, "µm", "hold"),
    ("q", None, "in", "hold"),
    ("q", None, "degrees", "hold"),
    ("q", None, "°", "hold"),
    ("q", None, "º", "hold"),
    ("q", None, "mrad", "hold"),
    ("q", None, "turns", "hold"),
    ("q", None, "rev", "hold"),
    # units of rates
    ("q", None, "m/s", "zero"),
    ("q", None, "m s⁻¹", "zero"),
    ("q", None, "m/s^2", "zero"),
    ("q", None, "m/s²", "zero"),
    ("q", None, "m/s/s", "zero"),
    ("q", None, "metres per second squared", "zero"),
    ("q", None, "rad·s⁻¹", "zero"),
    ("q", None, "rad s^-1", "zero"),
    ("q", None, "rad.s-1", "zero"),
    ("q", None, "rad*s**-1", "zero"),
    ("q", None, "rad/(s)", "zero"),
    ("q", None, "deg/s", "zero"),
    ("q", None, "deg/sec", "zero"),
    ("q", None, "rpm", "zero"),
    ("q", None, "RPM", "zero"),
    ("q", None, "min⁻¹", "zero"),
    ("q", None, "1/min", "zero"),
    ("q", None, "Hz", "zero"),
    ("q", None, "km/h", "zero"),
    ("q", None, "l/min", "zero"),
    ("q", None, "%/s", "zero"),
    # units of efforts
    ("q", None, "N", "zero"),
    ("q", None, "kN", "zero"),
    ("q", None, "N⋅m", "zero"),
    ("q", None, "N*m", "zero"),
    ("q", None, "N m", "zero"),
    ("q", None, "N-m", "zero"),
    ("q", None, "mNm", "zero"),
    ("q", None, "Newton metres", "zero"),
    ("q", None, "newton-meter", "zero"),
    ("q", None, "kg·m²/s²", "zero"),
    ("q", None, "kgf·cm", "zero"),
    ("q", None, "lbf·ft", "zero"),
    ("q", None, "A", "zero"),
    ("q", None, "mA", "zero"),
    ("q", None, "milliamps", "zero"),
    ("q", None, "V", "zero"),
    ("q", None, "W", "zero"),
    ("q", None, "Pa", "zero"),
    ("q", None, "bar", "zero"),
    # numbers leave it to the kind
    ("q", None, "%", None),
    ("q", None, "1", None),
    ("q", None, "", None),
    ("q", "effort", "%", "zero"),
    ("q", "joint_position_target", "1", "hold"),
    # contradictions, units that are not known or are often meant otherwise, and units of other things
    ("q", "joint_position_target", "rad/s", None),
    ("q", "velocity", "rad", None),
    ("q", "effort", "deg", None),
    ("q", "joint_position_target", "furlong", None),
    ("q", None, "nm", None),
    ("q", None, "rads", None),
    ("q", None, "rad/s*s", None),
    ("q", None, "rad, m", None),
    ("q", None, "counts", None),
    ("q", None, "N/m", None),
    ("q", None, "N·s/m", None),
    ("q", None, "N·m/rad", None),
    ("q", None, "K", None),
    ("q", None, "s", None),
    ("q", None, "m" * 70, None),
]


@pytest.mark.parametrize(("name", "kind", "unit", "expected"), TABLE)
def test_kind_and_unit_decide_and_names_do_not(
    name: str, kind: str | None, unit: str | None, expected: str | None
) -> None:
    assert declared_stop(Port(name, "float32", (1, 3), kind=kind, unit=unit)) == expected


def test_the_table_is_long_enough() -> None:
    assert len(set(TABLE)) == len(TABLE) >= 100


def test_on_stop_has_the_last_word_and_zero_must_be_within_the_limits() -> None:
    port = Port("q", "float32", (1, 2), kind="velocity")
    assert declared_stop(dataclasses.replace(port, on_stop="hold")) == "hold"
    assert declared_stop(dataclasses.replace(port, on_stop=0.0)) == 0.0
    assert declared_stop(dataclasses.replace(port, limits=((-1.0, 1.0), (0.0, 1.0)))) == "zero"
    assert declared_stop(dataclasses.replace(port, limits=((-1.0, 1.0), (0.1, 1.0)))) is None


def identity_file(*outputs: Port, sim_dt: float | None = 0.001) -> bytes:
    """Outputs that are all equal to the input x."""
    width = outputs[0].shape[-1]
    contract = Contract(1, (Port("x", "float32", (1, width)),), outputs, (), sim_dt=sim_dt)
    return made_by_hand([helper.make_node("Identity", ["x"], [port.name]) for port in outputs], contract)


def command_of(controller: Controller, x: Any, **options: Any) -> dict[str, list[float]]:
    """What a loop of two ticks leaves the robot with."""
    written: list[dict[str, np.ndarray]] = []
    serve_rate(controller, lambda: {"x": x}, written.append, ticks=2, **options)
    return {name: value.reshape(-1).tolist() for name, value in written[-1].items()}


def refused_read() -> dict[str, Any]:
    raise AssertionError("a loop that does not start must not read")


TIMELESS = Guards(rate="off", overrun="off", stale="off")
FREE = Port("free", "float32", (1, 3))


def test_a_loop_refuses_to_start_while_an_output_is_of_no_known_kind() -> None:
    touched: list[Any] = []
    controller = Controller.load(identity_file(FREE, Port("t", "float32", (1, 3), unit="Nm")), guards=TIMELESS)
    message = r"""serve_rate\(\) does not start.*'free' \(it has no kind and it has no unit\).*on_stop=\{'free': …\}"""
    with pytest.raises(RuntimeInputError, match=message):
        serve_rate(controller, refused_read, touched.append)
    assert touched == [] and controller.hz is None


@pytest.mark.parametrize(
    ("on_stop", "left"), [("hold", [1, 2, 3]), ("zero", [0, 0, 0]), (0.5, [0.5, 0.5, 0.5]), ([7, 8, 9.0], [7, 8, 9])]
)
def test_the_file_or_the_user_says_what_to_do(on_stop: Any, left: list[float]) -> None:
    stored = tuple(on_stop) if isinstance(on_stop, list) else on_stop
    in_file = Controller.load(identity_file(dataclasses.replace(FREE, on_stop=stored)), guards=TIMELESS)
    at_load = Controller.load(identity_file(FREE), guards=TIMELESS, on_stop={"free": on_stop})
    replaced = identity_file(dataclasses.replace(FREE, on_stop=5.0))
    for controller in (in_file, at_load, Controller.load(replaced, guards=TIMELESS, on_stop={"free": on_stop})):
        assert command_of(controller, [1.0, 2.0, 3.0]) == {"free": left}


def test_arrays_and_numbers_of_numpy_are_taken() -> None:
    for on_stop in (np.array([7.0, 8.0, 9.0]), np.array([[7, 8, 9]]), [np.float64(7), np.int64(8), 9]):
        controller = Controller.load(identity_file(FREE), guards=TIMELESS, on_stop={"free": on_stop})
        assert command_of(controller, [1.0, 2.0, 3.0]) == {"free": [7, 8, 9]}


@pytest.mark.parametrize(
    ("on_stop", "message"),
    [
        ({"free": "stop"}, r"""'free': on_stop must be "hold", "zero", a number, or 3 numbers.*got 'stop'"""),
        ({"free": [1.0, 2.0]}, "or 3 numbers, one for each element"),
        ({"free": [1.0, 2.0, float("nan")]}, "must be finite"),
        ({"free": float("inf")}, "must be finite"),
        ({"free": 1e39}, "must be values of float32"),
        ({"free": 51.0}, "must be within the limits"),
        ({"free": True}, "must be"),
        ({"free": None}, "must be"),
        ({"free": np.ma.array([1.0, 2.0, 3.0], mask=[True, False, False])}, "must be"),
        ({"fre": "hold"}, "on_stop has fre, but the outputs are free"),
        ({"x": "hold"}, "on_stop has x, but the outputs are free"),
        ("hold", "must be a dictionary of stop values by output"),
    ],
)
def test_invalid_stop_values_are_refused_at_load(on_stop: Any, message: str) -> None:
    data = identity_file(dataclasses.replace(FREE, limits=(-50.0, 50.0)))
    with pytest.raises(RuntimeInputError, match=message):
        Controller.load(data, on_stop=on_stop)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on_stop": "halt"}, "'halt' is not one of hold, zero"),
        ({"on_stop": [1.0]}, "or 3 numbers"),
        ({"on_stop": []}, "on_stop"),
        ({"on_stop": 51.0}, "within the limits"),
        ({"on_stop": {"a": 1}}, "on_stop"),
    ],
)
def test_invalid_stop_values_of_a_file_are_refused(change: dict[str, Any], message: str) -> None:
    contract = Contract(1, (), (dataclasses.replace(FREE, limits=(-50.0, 50.0)),), ())
    document = json.loads(contract.to_json())
    document["outputs"][0] |= change
    with pytest.raises(ContractError, match=message):
        Contract.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("dtype", "on_stop", "stored"),
    [
        ("int64", 2**53, float(2**53)),
        ("int64", 2**60 + 1, None),
        ("int16", 1.5, None),
        ("uint8", 300, None),
        ("uint8", -1, None),
        ("bool", True, 1.0),
        ("bool", [True, False, 1], (1.0, 0.0, 1.0)),
        ("bool", 2, None),
        ("float64", 10**400, None),
    ],
)
def test_stop_values_are_values_of_the_outputs_type(dtype: str, on_stop: Any, stored: Any) -> None:
    port = Port("q", dtype, (1, 3))
    if stored is not None:
        assert with_on_stop([port], {"q": on_stop})[0].on_stop == stored
        return
    with pytest.raises(ValueError, match="'q': on_stop must be"):
        with_on_stop([port], {"q": on_stop})


def test_inputs_and_memories_are_not_left_with_anything() -> None:
    contract = Contract(1, (dataclasses.replace(FREE, on_stop="hold"),), (), ())
    with pytest.raises(ContractError, match="'free' has on_stop, but is not an output for the robot"):
        Contract.from_json(contract.to_json())


def test_observations_and_actions_are_for_information_beside_other_outputs_only() -> None:
    observations, actions = (Port(kind, "float32", (1, 3), kind=kind) for kind in ("observations", "actions"))
    environment = Controller.load(identity_file(observations, actions, Port("q", "float32", (1, 3), unit="rad")))
    environment.stop_values.require_decided("")
    for alone in (identity_file(actions), identity_file(observations, actions), identity_file(actions, FREE)):
        assert "actions" in Controller.load(alone).stop_values.undecided


def test_stop_values_follow_the_order_of_the_robot() -> None:
    port = dataclasses.replace(FREE, names=("a", "b", "c"), on_stop=(1.0, 2.0, 3.0))
    controller = Controller.load(identity_file(port), guards=TIMELESS)
    controller.bind("free", ["c", "a", "b"])
    assert controller.ports["free"].on_stop == (3.0, 1.0, 2.0)
    assert command_of(controller, [0.0, 0.0, 0.0]) == {"free": [3, 1, 2]}


def test_a_loop_of_your_own_can_ask_for_the_command() -> None:
    controller = Controller.load(identity_file(POSITION, TORQUE))
    assert controller.stop_command() == {}
    controller.step({"x": [8.0]})
    assert {name: value.item() for name, value in controller.stop_command().items()} == {"q": 8.0, "t": 0.0}
    with pytest.raises(RuntimeInputError, match=r"There is no stop command.*'free'"):
        Controller.load(identity_file(FREE)).stop_command()


# -- safe= ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("safe", "message"),
    [
        ({"stop": 1}, "safe: unknown outputs stop. The outputs are free, t"),
        ({"free": [0.0, 0.0]}, r"safe: 'free' must be float32 \[1, 3\], got float32 \[2\]"),
        ({"free": [0.0, 0.0, np.nan]}, "safe: 'free' must be finite"),
        ({"free": [0.0, 0.0, 1e300]}, "safe: 'free' must be .* beyond the range of float32"),
        ({"free": [0.0, 0.0, 51.0]}, "safe: 'free' must be within its limits"),
        ({"t": [0.0, 0.0, 0.0]}, "'free'"),
    ],
)
def test_a_safe_command_is_checked_before_the_first_tick(safe: Any, message: str) -> None:
    touched: list[Any] = []
    port, torque = dataclasses.replace(FREE, limits=(-50.0, 50.0)), Port("t", "float32", (1, 3), unit="N")
    controller = Controller.load(identity_file(port, torque), guards=TIMELESS)
    with pytest.raises(RuntimeInputError, match=message):
        serve_rate(controller, refused_read, touched.append, safe=safe)
    assert touched == []


def test_what_a_safe_command_does_not_name_gets_its_stop_value() -> None:
    controller = Controller.load(identity_file(FREE, Port("t", "float32", (1, 3), unit="N")), guards=TIMELESS)
    safe = {"free": np.array([4.0, 5.0, 6.0])}
    assert command_of(controller, [1.0, 2.0, 3.0], safe=safe) == {"free": [4, 5, 6], "t": [0, 0, 0]}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"free": [1.0]}, r"safe: 'free' must be float32 \[1, 3\]"),
        ({"free": [1.0, 2.0, np.inf]}, "safe: 'free' must be finite"),
        ({}, "safe: the function must return them. .*'free'"),
        (None, "safe: expected a dictionary of outputs, got None"),
    ],
)
def test_stop_values_are_written_if_a_safe_function_returns_something_else(answer: Any, message: str) -> None:
    controller = Controller.load(identity_file(FREE, Port("t", "float32", (1, 3), unit="N")), guards=TIMELESS)
    written: list[dict[str, np.ndarray]] = []
    with pytest.raises(RuntimeInputError, match=message):
        serve_rate(controller, lambda: {"x": [1, 2, 3]}, written.append, ticks=2, safe=lambda last: answer)
    assert [value.tolist() for value in written[-1].values()] == [[[1, 2, 3]], [[0, 0, 0]]]


def test_without_a_good_tick_torques_are_zeroed_but_positions_are_unknown() -> None:
    for unit, expected in (("N", [[[0.0, 0.0, 0.0]]]), ("rad", [])):
        controller = Controller.load(identity_file(dataclasses.replace(FREE, unit=unit)), guards=TIMELESS)
        written: list[dict[str, np.ndarray]] = []
        with pytest.raises(ZeroDivisionError):
            serve_rate(controller, lambda: {"x": 1 / 0}, written.append)
        assert [command["free"].tolist() for command in written] == expected


# -- held faults ------------------------------------------------------------------------------------------------------

POSITION, TORQUE = Port("q", "float32", (1, 1), unit="rad"), Port("t", "float32", (1, 1), unit="Nm")
CROUCH = Port("crouch", "float32", (1, 1), unit="rad", on_stop=-8.0)


def held_outputs(clock: FakeClock, use_tick: bool = False, **options: Any) -> list[list[float]]:
    """Position, torque and crouch over the ticks after a fault at 8, one every 0.1 s."""
    data = identity_file(POSITION, TORQUE, CROUCH, sim_dt=None)
    controller = Controller.load(data, clock=clock, guards=Guards(finite="hold"), **options)
    controller.step({"x": [8.0]})
    found = []
    for _ in range(4):
        if use_tick:
            controller.inputs["x"][...] = np.nan
            controller.tick()
        else:
            controller.step({"x": [np.nan]})
        found.append([float(controller.outputs[name][0, 0]) for name in ("q", "t", "crouch")])
        clock.advance(0.1)
    return found


@pytest.mark.parametrize("use_tick", [False, True])
def test_a_held_fault_holds_positions_and_stops_what_moves(use_tick: bool) -> None:
    assert held_outputs(FakeClock(), use_tick) == [[8, 0, -8]] * 4


def test_over_some_time_if_asked() -> None:
    found = held_outputs(FakeClock(), hold_for=0.2)
    np.testing.assert_allclose(found, [[8, 8, 8], [8, 4, 0], [8, 0, -8], [8, 0, -8]], atol=1e-5)


@pytest.mark.parametrize("hold_for", [-1.0, float("nan"), float("inf"), "long", None, True])
def test_the_time_must_be_seconds(hold_for: Any) -> None:
    with pytest.raises(RuntimeInputError, match="hold_for must be 0 or more seconds"):
        Controller.load(robot_file(), hold_for=hold_for)


def test_nothing_is_held_while_an_output_is_of_no_known_kind() -> None:
    with pytest.raises(RuntimeInputError, match=r"""A guard is set to "hold".*'free'"""):
        Controller.load(identity_file(FREE), guards=Guards(stale="hold"))


def test_a_loop_writes_held_outputs_with_their_stop_values() -> None:
    controller = Controller.load(
        robot_file(),
        guards=Guards(finite="hold", rate="off", overrun="off", stale="off"),
        on_stop={"joint_targets": [1.0, 2.0, 3.0]},
    )
    bad = robot_inputs() | {"cmd": np.full((1, 2), np.nan, np.float32)}
    values = iter([robot_inputs(), bad, bad])
    written: list[dict[str, np.ndarray]] = []
    served = serve_rate(controller, lambda: next(values), written.append, ticks=3)
    assert served.fault is not None
    assert [command["joint_targets"].tolist() for command in written[1:]] == [[[1, 2, 3]]] * 3
