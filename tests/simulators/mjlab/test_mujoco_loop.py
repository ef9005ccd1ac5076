"""`examples/mujoco_loop.py`: files in plain MuJoCo do what they do in mjlab."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import torch
from mjlab.envs import ManagerBasedRlEnv
from mjlab.tasks.registry import load_env_cfg

import exploy
from examples.mujoco_loop import MujocoRobot, set_up_motor, simulate
from exploy.environment.actor import ExportableActor
from exploy.environment.components import Memory
from exploy.errors import RuntimeInputError
from exploy.runtime import Controller
from exploy.simulators.manager_based.environment import ManagerBasedEnvironment
from exploy.simulators.mjlab.tasks import load_task
from tests.support.mjlab_exports import CART_POLE, G1
from tests.support.simulator_exports import Exported
from tools.mjlab_scene import write_scene
from tools.train_mjlab_cart_pole import CHECKPOINT

ROOT = Path(__file__).parents[3]
ROBOTS = 8
STEP = 0.05  # seconds between two actions of the cart-pole
POSITIONS = "output.joint_targets.robot.pos"


def scene_of(task: str, folder: Path) -> Path:
    cfg = load_env_cfg(task, play=True)
    cfg.scene.num_envs = 1
    return write_scene(cfg, folder)


def run_example(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "mujoco_loop.py"), *map(str, arguments)]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | {"PYTHONPATH": path})


# -- the trained cart-pole -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """The trained cart-pole: the actor in torch, the file, and the scene."""

    actor: ExportableActor
    file: Path
    scene: Path


@dataclass(frozen=True)
class Episode:
    """Where the joints were after each policy step, and the sum of the rewards."""

    positions: np.ndarray
    value: float


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    env, actor = load_task(CART_POLE, CHECKPOINT, settings={"seed": 0})
    file = exploy.export(env, actor, folder / "policy.onnx", strict=False).path
    return Trained(actor, file, scene_of(CART_POLE, folder / "scene"))


def episodes_in_mjlab(actor: ExportableActor, seconds: float, **ranges: Any) -> tuple[np.ndarray, list[Episode]]:
    """Start states (positions, velocities) of some robots in mjlab, and their episodes; rewards are mjlab's own."""
    cfg = load_env_cfg(CART_POLE, play=True)
    cfg.scene.num_envs, cfg.seed = ROBOTS, 3
    for event, values in ranges.items():
        cfg.events[event].params["position_range"] = values
    env = ManagerBasedRlEnv(cfg, device="cpu")
    observations, data = env.reset()[0], env.sim.data
    start = np.stack([data.qpos.numpy(), data.qvel.numpy()], 1).copy()
    positions, values = [], torch.zeros(ROBOTS, dtype=torch.float64)
    with torch.inference_mode():
        for _ in range(round(seconds / STEP)):
            observations, rewards, *_ = env.step(actor(observations["actor"]))
            positions.append(data.qpos.numpy().copy())
            values += rewards
    return start, [Episode(np.array(positions)[:, robot], float(values[robot])) for robot in range(ROBOTS)]


def episode_in_mujoco(robot: MujocoRobot, start: np.ndarray, seconds: float) -> Episode:
    """The episode that the file alone drives."""
    controller, positions, value = robot.controller, [], 0.0
    for tick, _ in enumerate(simulate(StartingAt(robot, *start), seconds)):
        if tick % controller.contract.decimation == controller.contract.decimation - 1:
            positions.append(robot.data.qpos.copy())
            (cart, angle), rate = robot.data.qpos, robot.data.qvel[1]
            value += STEP * reward(cart, angle, rate, float(controller.outputs["actions"][0, 0]))
    return Episode(np.array(positions), value)


class StartingAt(MujocoRobot):
    """A robot of MuJoCo that starts each episode in a certain state."""

    def __init__(self, robot: MujocoRobot, positions: np.ndarray, velocities: np.ndarray):
        self.__dict__.update(vars(robot))
        self._start = positions, velocities

    def reset(self) -> None:
        super().reset()
        self.data.qpos[:], self.data.qvel[:] = self._start


def reward(cart: float, angle: float, rate: float, action: float) -> float:
    """The reward of a second, after the task's description: upright, in the middle, with little effort, and calm."""
    upright = (1 + np.cos(angle)) / 2
    centered = (1 + 0.1 ** (cart / 2) ** 2) / 2
    little_effort = (4 + max(0.0, 1 - 0.9 * action**2)) / 5
    calm = (1 + 0.1 ** (rate / 5) ** 2) / 2
    return float(upright * centered * little_effort * calm)


@pytest.mark.parametrize(
    ("seconds", "ranges"),
    [
        pytest.param(10.0, {"reset_slider": (-1.0, 1.0), "reset_hinge": (-0.4, 0.4)}, id="far from the balance"),
        pytest.param(50.0, {}, id="whole episodes as in training", marks=pytest.mark.expensive),
    ],
)
def test_the_file_has_the_return_of_mjlab_in_plain_mujoco(
    seconds: float, ranges: dict[str, Any], trained: Trained
) -> None:
    starts, expected = episodes_in_mjlab(trained.actor, seconds, **ranges)
    robot = MujocoRobot(Controller.load(trained.file), trained.scene)
    for start, episode in zip(starts, expected, strict=True):
        found = episode_in_mujoco(robot, start, seconds)
        assert found.value == pytest.approx(episode.value, rel=0.02)
        np.testing.assert_allclose(found.positions, episode.positions, atol=1e-3)
        assert np.cos(found.positions[-40:, 1]).min() > 0.9999  # balanced, some after a turn
        assert found.value > 0.8 * seconds


def test_without_the_policy_the_pole_falls(trained: Trained) -> None:
    robot = MujocoRobot(Controller.load(trained.file), trained.scene)
    robot._motors.clear()
    episode = episode_in_mujoco(robot, np.array([[0.0, 0.05], [0.0, 0.0]]), 10.0)
    assert np.abs(episode.positions[:, 1]).max() > 2.0
    assert episode.value < 0.8 * 10.0


def test_the_example_runs_as_it_stands(trained: Trained) -> None:
    done = run_example(trained.file, trained.scene, "--seconds", 5)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "5 s of simulation: 500 ticks, the policy at every 5th" in done.stdout
    low, high, end = map(float, re.findall(r"hinge_1.*from (\S+) to (\S+), at the end (\S+)", done.stdout)[0])
    assert -0.1 < low <= end <= high < 0.1


def test_the_checkpoint_is_small() -> None:
    assert CHECKPOINT.stat().st_size < 30_000


# -- the G1 ----------------------------------------------------------------------------------------------------------


@dataclass
class Recording:
    """What mjlab has computed at each simulation step of an environment, and at which of them it was reset."""

    adapter: ManagerBasedEnvironment
    positions: list[np.ndarray] = field(default_factory=list)
    velocities: list[np.ndarray] = field(default_factory=list)
    commands: list[np.ndarray] = field(default_factory=list)
    targets: list[np.ndarray] = field(default_factory=list)
    forces: list[np.ndarray] = field(default_factory=list)
    inputs: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    resets: set[int] = field(default_factory=set)

    def take(self, sub_step: int) -> None:
        """Keep the state before a simulation step, the targets for it, and the forces of the step before."""
        env = self.adapter.env
        data, robot = env.sim.data, env.scene["robot"]
        command = env.command_manager.get_term("twist").vel_command_b
        if sub_step == 0:
            components = self.adapter.context_manager().get_input_components()
            ports = [item for item in components if not isinstance(item, Memory)]
            self.inputs[len(self.positions)] = {item.name: item.fetch().numpy().copy() for item in ports}
        sources = data.qpos, data.qvel, command, robot.data.joint_pos_target, data.qfrc_actuator
        lists = self.positions, self.velocities, self.commands, self.targets, self.forces
        for values, source in zip(lists, sources, strict=True):
            values.append(source[0].numpy().copy())

    def note_reset(self) -> None:
        self.resets.add(len(self.positions))


def record(exported: Exported, steps: int) -> Recording:
    env, actor, _ = exported
    recording = Recording(env)
    env.reset()
    observations = env.observations_reset()
    env.register_evaluation_hooks(lambda: None, recording.note_reset, recording.take)
    with torch.inference_mode():
        for _ in range(steps):
            observations, is_over = env.step(actor(observations))
            if is_over:
                actor.reset(torch.ones(1, dtype=torch.bool))
    env.register_evaluation_hooks(lambda: None, lambda: None, lambda _: None)
    return recording


def replay(robot: MujocoRobot, recording: Recording) -> Iterator[int]:
    """Put the robot into each recorded state, tick, and simulate a step from there."""
    for tick, (positions, velocities) in enumerate(zip(recording.positions, recording.velocities, strict=True)):
        if tick in recording.resets:
            robot.controller.reset()
        robot.data.qpos[:], robot.data.qvel[:] = positions, velocities
        robot.velocity = recording.commands[tick]
        robot.read()
        robot.controller.tick()
        robot.write()
        yield tick


@pytest.fixture(scope="module")
def g1_scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scene_of(G1, tmp_path_factory.mktemp("g1_scene"))


def test_the_g1_gets_in_plain_mujoco_what_it_gets_in_mjlab_tick_for_tick(g1: Exported, g1_scene: Path) -> None:
    env, _, file = g1
    recording = record(g1, steps=60)
    robot = MujocoRobot(Controller.load(file), g1_scene)
    assert robot.controller.ports[POSITIONS].names == tuple(env.env.scene["robot"].joint_names)
    assert len(recording.targets) == 60 * 4 and recording.resets - {0}
    for tick in replay(robot, recording):
        for name, values in recording.inputs.get(tick, {}).items():
            np.testing.assert_allclose(robot.controller.inputs[name], values, rtol=0, atol=1e-5, err_msg=name)
        targets = robot.controller.outputs[POSITIONS][0]
        np.testing.assert_allclose(targets, recording.targets[tick], rtol=0, atol=1e-5, err_msg=f"tick {tick}")
        if tick % 4 != 3:  # then mjlab computes forces again, for the next observation
            forces = recording.forces[tick + 1]
            np.testing.assert_allclose(robot.data.qfrc_actuator, forces, rtol=0, atol=1e-3)


def test_the_example_drives_the_g1(g1: Exported, g1_scene: Path) -> None:
    done = run_example(g1[2], g1_scene, "--seconds", 0.1, "--velocity", 0.5, 0, 0)
    assert done.returncode == 0, done.stderr
    assert "0.1 s of simulation: 20 ticks, the policy at every 4th" in done.stdout


def test_inputs_that_the_model_cannot_give_are_named(g1: Exported, g1_scene: Path) -> None:
    other = g1_scene.with_name("other.xml")
    other.write_text(g1_scene.read_text().replace("imu_in_pelvis", "imu"))
    done = run_example(g1[2], other)
    assert done.returncode == 1
    assert "Nothing in this model gives sensor.imu.imu_in_pelvis." in done.stderr
    assert done.stderr.count("\n") == 1


def test_joints_that_the_model_lacks_are_named(trained: Trained, g1_scene: Path) -> None:
    done = run_example(trained.file, g1_scene)
    assert done.returncode == 1
    assert "missing: slider, hinge_1" in done.stderr


# -- motors ----------------------------------------------------------------------------------------------------------

ACTUATORS = {
    "none": "",
    "a position actuator with other gains": "<position joint='hinge' kp='500' dampratio='1' inheritrange='1'/>",
    "a position and a velocity actuator": "<position joint='hinge' kp='3'/><velocity joint='hinge' kv='1'/>",
    "a motor": "<motor joint='hinge' ctrlrange='-20 20'/>",
}


def hinge(actuators: str) -> Any:
    key = f"<keyframe><key qpos='0.3' ctrl='{'0 ' * actuators.count('joint=')}'/></keyframe>" if actuators else ""
    return mujoco.MjSpec.from_string(
        "<mujoco><worldbody><body><joint name='hinge' range='-60 60'/><geom size='0.1'/></body></worldbody>"
        f"<actuator>{actuators}</actuator>{key}</mujoco>"
    )


def force_of(spec: Any, motor: Any, control: float) -> float:
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[motor.id] = 0.3, -0.7, control
    mujoco.mj_forward(model, data)
    return float(data.qfrc_actuator[0])


@pytest.mark.parametrize("actuators", ACTUATORS.values(), ids=ACTUATORS)
def test_a_joint_gets_the_gains_of_the_file_whatever_actuators_it_has(actuators: str) -> None:
    spec = hinge(actuators)
    motor = set_up_motor(spec, "hinge", 40.0, 2.0)
    target, effort = 0.4, 1.5
    force = force_of(spec, motor, 40.0 * target + effort)
    assert force == pytest.approx(40.0 * (target - 0.3) + 2.0 * 0.7 + effort)
    assert spec.compile().nu == 1


def test_limits_of_the_control_of_a_motor_become_limits_of_its_force() -> None:
    spec = hinge(ACTUATORS["a motor"])
    motor = set_up_motor(spec, "hinge", 40.0, 2.0)
    assert force_of(spec, motor, 1000.0) == 20.0


def test_without_gains_a_motor_stays_as_it_is() -> None:
    spec = hinge("<motor joint='hinge' gear='10' ctrlrange='-1 1'/>")
    motor = set_up_motor(spec, "hinge", 0.0, 0.0)
    assert force_of(spec, motor, 0.5) == 5.0
    assert force_of(spec, motor, 2.0) == 10.0


@pytest.mark.parametrize(
    "actuators", ["<motor joint='hinge' gear='10'/>", "<intvelocity joint='hinge' actrange='-1 1'/>"]
)
def test_actuators_that_cannot_have_the_gains_are_refused(actuators: str) -> None:
    with pytest.raises(RuntimeInputError, match="dynamics of its own, or a gear"):
        set_up_motor(hinge(actuators.replace("joint='hinge'", "name='strange' joint='hinge'")), "hinge", 40.0, 2.0)
