"""Drive a robot in plain MuJoCo by an exported file: `python examples/mujoco_loop.py policy.onnx robot.xml`.

It needs mujoco, numpy and exploy, and neither torch nor the simulator that the policy was trained in. The file says
which joints it moves, with which gains, and how long a simulation step is. The model is the robot's own MJCF, or a
scene with the robot in it. Its joints, bodies and sites have the names that the file knows, or `ROBOT/name` as in
scenes of mjlab.

A loop on a real robot looks like `simulate()`: read what the file needs, tick, write the targets.
"""

import argparse
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from exploy.errors import ExployError, RuntimeInputError
from exploy.runtime import Controller

ANGULAR, LINEAR = slice(0, 3), slice(3, 6)  # of a velocity of MuJoCo
VELOCITIES = {  # by their names in files: the part of a velocity, and whether it is in the frame of the body itself
    "lin_vel_b_rt_w_in_b": (LINEAR, True),
    "ang_vel_b_rt_w_in_b": (ANGULAR, True),
    "lin_vel_b_rt_w_in_w": (LINEAR, False),
    "ang_vel_b_rt_w_in_w": (ANGULAR, False),
}

Reader = Callable[[], np.ndarray]


def simulate(robot: "MujocoRobot", seconds: float) -> Iterator[None]:
    """Run from the start at both rates; stops after each simulation step, so that the caller can look at the robot.

    The controller counts the ticks: it runs the policy at every `decimation`th one, and sub-steps at the others.
    """
    robot.reset()
    robot.controller.reset()
    for _ in range(round(seconds / robot.model.opt.timestep)):
        robot.read()
        robot.controller.tick()
        robot.write()
        yield


class MujocoRobot:
    """A robot in MuJoCo, which gives a file its inputs, and whose motors get the targets of joints.

    Args:
        controller: The loaded file. Its joints are bound to the order of the model.
        path: The MJCF.
        velocity: The command for each input `cmd.se2_velocity.NAME`: m/s forward, m/s to the left, rad/s.

    Raises:
        RuntimeInputError: If the model lacks a joint, cannot give an input, or has an actuator that cannot be used, or
            if the file does not move joints.
    """

    def __init__(self, controller: Controller, path: str | Path, velocity: Sequence[float] = (0.0, 0.0, 0.0)):
        if controller.contract.sim_dt is None:
            raise RuntimeInputError("The file does not say how long a simulation step is. Export it with 'sim_dt'.")
        self.controller, self.velocity = controller, np.array(velocity)
        self.spec = mujoco.MjSpec.from_file(str(path))
        self.spec.option.timestep = controller.contract.sim_dt
        bind_joints(controller, self.spec)
        self._motors = [JointMotors(controller, self.spec, robot) for robot in moved_robots(controller)]
        self.model = self.spec.compile()
        self.data = mujoco.MjData(self.model)
        self._readers = self._find_readers()

    def reset(self) -> None:
        """Start from the first keyframe of the model, if it has one."""
        if self.model.nkey:
            mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        else:
            mujoco.mj_resetData(self.model, self.data)

    def read(self) -> None:
        """Write what the robot measures into the inputs of the controller."""
        mujoco.mj_step1(self.model, self.data)  # where bodies are and how they move, from the joints as they are now
        for name, reader in self._readers.items():
            self.controller.inputs[name][...] = reader()

    def write(self) -> None:
        """Give the motors what the controller has computed, and simulate one step."""
        for motors in self._motors:
            motors.write(self.data)
        mujoco.mj_step2(self.model, self.data)  # by any integrator but RK4, for which MuJoCo takes Euler here

    def _find_readers(self) -> dict[str, Reader]:
        found = {name: self._reader(name) for name in self.controller.inputs}
        if unknown := [name for name, reader in found.items() if reader is None]:
            raise RuntimeInputError(
                f"Nothing in this model gives {', '.join(unknown)}. Check the names of bodies and sites in the MJCF, "
                "or say in MujocoRobot._reader() where the values come from."
            )
        return {name: reader for name, reader in found.items() if reader is not None}

    def _reader(self, name: str) -> Reader | None:
        """Return the function that gives the values of an input, or None if there is nothing to take them from."""
        spec, data = self.spec, self.data
        match name.split("."):
            case ["obj", robot, "joints", "pos"]:
                positions = self.model.jnt_qposadr[self._joints(name, robot)]
                return lambda: data.qpos[positions]
            case ["obj", robot, "joints", "vel"]:
                velocities = self.model.jnt_dofadr[self._joints(name, robot)]
                return lambda: data.qvel[velocities]
            case ["obj", robot, frame, quantity]:
                body, site = find(spec.bodies, frame, robot), find(spec.sites, frame, robot)
                return self._reader_of_body(body, quantity) if body else self._reader_of_site(site, quantity)
            case ["sensor", "imu", frame, quantity]:  # the model needs no sensors
                return self._reader_of_site(find(spec.sites, frame), quantity)
            case ["cmd", "se2_velocity", _]:
                return lambda: self.velocity
        return None

    def _joints(self, port: str, robot: str) -> list[int]:
        names = self.controller.ports[port].names or ()
        return [find(self.spec.joints, name, robot).id for name in names]

    def _reader_of_body(self, body: Any, quantity: str) -> Reader | None:
        data, index = self.data, body.id
        if quantity == "pos_b_rt_w_in_w":
            return lambda: data.xpos[index]
        if quantity == "w_Q_b":
            return lambda: data.xquat[index]
        return self._reader_of_velocity(mujoco.mjtObj.mjOBJ_XBODY, index, quantity)

    def _reader_of_site(self, site: Any, quantity: str) -> Reader | None:
        if site is None:
            return None
        data, index, body, rotation = self.data, site.id, site.parent.id, self.model.site_quat[site.id]
        orientation = np.empty(4)

        def read_orientation() -> np.ndarray:
            mujoco.mju_mulQuat(orientation, data.xquat[body], rotation)
            return orientation

        if quantity == "pos_b_rt_w_in_w":
            return lambda: data.site_xpos[index]
        if quantity == "w_Q_b":
            return read_orientation
        return self._reader_of_velocity(mujoco.mjtObj.mjOBJ_SITE, index, quantity)

    def _reader_of_velocity(self, kind: Any, index: int, quantity: str) -> Reader | None:
        if quantity not in VELOCITIES:
            return None
        part, is_local = VELOCITIES[quantity]
        velocity = np.empty(6)

        def read_velocity() -> np.ndarray:
            mujoco.mj_objectVelocity(self.model, self.data, kind, index, velocity, is_local)
            return velocity[part]

        return read_velocity


class JointMotors:
    """The motors of a robot's joints, in the order of the targets of the file.

    A motor exerts `stiffness * (pos - q) + damping * (vel - dq) + effort`. Its control is the sum of the parts with
    targets. The parts with `q` and `dq` are gains of the actuator, as they are in a <position> actuator, so that
    MuJoCo's implicit integrators know them. Gains are those of the file, limits of forces those of the model.

    Raises:
        RuntimeInputError: If the targets are incomplete, or an actuator of the model cannot be used.
    """

    def __init__(self, controller: Controller, spec: Any, robot: str):
        names = [f"output.joint_targets.{robot}.{quantity}" for quantity in ("pos", "vel", "effort")]
        if missing := [name for name in names if name not in controller.outputs]:
            raise RuntimeInputError(f"The file has no output {', '.join(missing)}.")
        self._pos, self._vel, self._effort = (controller.outputs[name] for name in names)
        joints = controller.ports[names[0]].names or ()
        gains = controller.gains.get(names[0], {})
        none = np.zeros(len(joints))  # the file tells no gains
        self._stiffness, self._damping = gains.get("stiffness", none), gains.get("damping", none)
        self._actuators = [
            set_up_motor(spec, find(spec.joints, joint, robot).name, stiffness, damping)
            for joint, stiffness, damping in zip(joints, self._stiffness, self._damping, strict=True)
        ]

    def write(self, data: Any) -> None:
        """Set the controls of the motors."""
        controls = self._stiffness * self._pos + self._damping * self._vel + self._effort
        data.ctrl[[actuator.id for actuator in self._actuators]] = controls[0]


def set_up_motor(spec: Any, joint: str, stiffness: float, damping: float) -> Any:
    """Give a joint one actuator with these gains: the first that the model has there, or a new one."""
    of_joint = mujoco.mjtTrn.mjTRN_JOINT
    present = [item for item in spec.actuators if item.trntype == of_joint and item.target == joint]
    motor = present[0] if present else spec.add_actuator(name=f"{joint}_motor", target=joint, trntype=of_joint)
    for other in present[1:]:  # such as a <velocity> beside a <position>
        spec.delete(other)
    for key in spec.keys:
        key.ctrl = []  # of the actuators that were there before
    has_gains = bool(stiffness or damping)
    is_plain = motor.dyntype == mujoco.mjtDyn.mjDYN_NONE and motor.gaintype == mujoco.mjtGain.mjGAIN_FIXED
    if not is_plain or (has_gains and motor.gear[0] != 1.0):
        raise RuntimeInputError(
            f"The actuator {motor.name!r} has dynamics of its own, or a gear between the joint and the gains of the "
            "file. Replace it by a <motor> without them."
        )
    if has_gains or motor.biastype != mujoco.mjtBias.mjBIAS_NONE:  # else efforts go to it as it is, gear included
        set_gains(motor, stiffness, damping)
    return motor


def set_gains(motor: Any, stiffness: float, damping: float) -> None:
    """Let an actuator exert `control - stiffness * q - damping * dq`."""
    no, yes = mujoco.mjtLimited.mjLIMITED_FALSE, mujoco.mjtLimited.mjLIMITED_TRUE
    is_limited_force = motor.biastype == mujoco.mjtBias.mjBIAS_NONE and motor.ctrllimited != no
    if is_limited_force and motor.ctrlrange.any() and not motor.forcerange.any():
        motor.forcelimited, motor.forcerange = yes, motor.gainprm[0] * motor.ctrlrange
    motor.ctrllimited, motor.inheritrange = no, 0.0
    motor.gainprm[0], motor.biastype = 1.0, mujoco.mjtBias.mjBIAS_AFFINE
    motor.biasprm[:3] = 0.0, -stiffness, -damping


# -- names -----------------------------------------------------------------------------------------------------------


def find(elements: Iterable[Any], name: str, robot: str | None = None) -> Any:
    """Return the first element of this name, in the model itself or of the robot; None if there is none."""
    for element in elements:
        owner, _, own = element.name.rpartition("/")
        if in_port(own) == in_port(name) and (robot is None or in_port(owner) in ("", robot)):
            return element
    return None


def in_port(name: str) -> str:
    """A name as it stands in the names of inputs and outputs."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def bind_joints(controller: Controller, spec: Any) -> None:
    """Put the joints of inputs and outputs into the order of the model; those that it lacks are an error."""
    joints = [joint.name.rpartition("/") for joint in spec.joints]
    for name in controller.ports:
        match name.split("."):
            case ["obj", robot, "joints", _] | ["output", "joint_targets", robot, _]:
                controller.bind(name, [own for owner, _, own in joints if in_port(owner) in ("", robot)])


def moved_robots(controller: Controller) -> list[str]:
    """The robots whose joints the file moves."""
    parts = [name.split(".") for name in controller.outputs]
    robots = sorted({part[2] for part in parts if part[:2] == ["output", "joint_targets"]})
    if not robots:
        raise RuntimeInputError(f"The file moves no joints. Its outputs are {', '.join(controller.outputs)}.")
    return robots


# -- the command line ------------------------------------------------------------------------------------------------


def show(robot: MujocoRobot, seconds: float) -> None:
    """Run at the pace of the clock, in MuJoCo's window."""
    import mujoco.viewer

    with mujoco.viewer.launch_passive(robot.model, robot.data) as viewer:
        start = time.perf_counter()
        for _ in simulate(robot, seconds):
            viewer.sync()
            time.sleep(max(0.0, start + robot.data.time - time.perf_counter()))
            if not viewer.is_running():
                return


def run(robot: MujocoRobot, seconds: float) -> None:
    """Run as fast as possible, and print how far each joint has moved."""
    moved = np.array([robot.data.qpos.copy() for _ in simulate(robot, seconds)])
    decimation = robot.controller.contract.decimation
    print(f"{seconds:g} s of simulation: {len(moved)} ticks, the policy at every {decimation}th")
    for joint in robot.spec.joints:
        if joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE):
            values = moved[:, robot.model.jnt_qposadr[joint.id]]
            print(f"  {joint.name:40} from {values.min():+.3f} to {values.max():+.3f}, at the end {values[-1]:+.3f}")


def main() -> None:
    """Load file and model, and run."""
    parser = argparse.ArgumentParser(description="Drive a robot in plain MuJoCo by an exported file.")
    parser.add_argument("file", help="the exported file")
    parser.add_argument("model", help="the MJCF of the robot, or of a scene with it")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--velocity", type=float, nargs=3, default=(0.0, 0.0, 0.0), metavar=("X", "Y", "YAW"))
    parser.add_argument("--view", action="store_true", help="show it in MuJoCo's window")
    arguments = parser.parse_args()
    try:
        controller = Controller.load(arguments.file)
        controller.selftest()  # does this machine compute what torch did?
        robot = MujocoRobot(controller, arguments.model, arguments.velocity)
        (show if arguments.view else run)(robot, arguments.seconds)
    except ExployError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
