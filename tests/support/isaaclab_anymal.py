"""Isaac Lab 3's task AnymalD flat on Newton and the CPU, with a robot of boxes in place of the one on a server."""

from functools import partial
from pathlib import Path
from typing import Any

import torch

from exploy import ExportableEnvironment, Input, Memory, Output


def write_quadruped(path: Path) -> None:
    """A quadruped of boxes with the bodies and joints of ANYmal; the centre of mass of its base is not its origin."""
    from pxr import Gf, Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/Robot").GetPrim())

    def body(name: str, position: Any, size: Any, mass: float, com: Any = (0, 0, 0)) -> Any:
        form = UsdGeom.Xform.Define(stage, f"/Robot/{name}")
        form.AddTranslateOp().Set(Gf.Vec3d(*position))
        UsdPhysics.RigidBodyAPI.Apply(form.GetPrim())
        inertia = UsdPhysics.MassAPI.Apply(form.GetPrim())
        inertia.CreateMassAttr(mass)
        inertia.CreateDiagonalInertiaAttr(Gf.Vec3f(*(mass * 0.01 + 1e-3 for _ in range(3))))
        inertia.CreateCenterOfMassAttr(Gf.Vec3f(*com))
        inertia.CreatePrincipalAxesAttr(Gf.Quatf(1))
        box = UsdGeom.Cube.Define(stage, f"/Robot/{name}/geom")
        box.CreateSizeAttr(1.0)
        box.AddScaleOp().Set(Gf.Vec3f(*size))
        UsdPhysics.CollisionAPI.Apply(box.GetPrim())
        return form.GetPrim()

    def joint(kind: Any, name: str, bodies: tuple[str, str], at: Any, axis: str | None = None) -> None:
        made = kind.Define(stage, f"/Robot/{name}")
        made.CreateBody0Rel().SetTargets([f"/Robot/{bodies[0]}"])
        made.CreateBody1Rel().SetTargets([f"/Robot/{bodies[1]}"])
        made.CreateLocalPos0Attr(Gf.Vec3f(*at[0]))
        made.CreateLocalPos1Attr(Gf.Vec3f(*at[1]))
        made.CreateLocalRot0Attr(Gf.Quatf(1))
        made.CreateLocalRot1Attr(Gf.Quatf(1))
        if axis is not None:
            made.CreateAxisAttr(axis)
            made.CreateLowerLimitAttr(-120)
            made.CreateUpperLimitAttr(120)
            UsdPhysics.DriveAPI.Apply(made.GetPrim(), "angular")

    UsdPhysics.ArticulationRootAPI.Apply(body("base", (0, 0, 0), (0.6, 0.3, 0.2), 20.0, com=(0.05, -0.02, 0.03)))
    for leg, x, y in (("LF", 0.3, 0.15), ("LH", -0.3, 0.15), ("RF", 0.3, -0.15), ("RH", -0.3, -0.15)):
        side = 0.05 if y > 0 else -0.05
        body(f"{leg}_HIP", (x, y, 0), (0.08, 0.08, 0.08), 1.5)
        body(f"{leg}_THIGH", (x, y + side, -0.13), (0.05, 0.05, 0.2), 2.0)
        body(f"{leg}_SHANK", (x, y + side, -0.39), (0.04, 0.04, 0.2), 0.6)
        body(f"{leg}_FOOT", (x, y + side, -0.53), (0.05, 0.05, 0.05), 0.1)
        turning, fixed = UsdPhysics.RevoluteJoint, UsdPhysics.FixedJoint
        joint(turning, f"{leg}_HAA", ("base", f"{leg}_HIP"), ((x, y, 0), (0, 0, 0)), "X")
        joint(turning, f"{leg}_HFE", (f"{leg}_HIP", f"{leg}_THIGH"), ((0, side, 0), (0, 0, 0.13)), "Y")
        joint(turning, f"{leg}_KFE", (f"{leg}_THIGH", f"{leg}_SHANK"), ((0, 0, -0.13), (0, 0, 0.13)), "Y")
        joint(fixed, f"{leg}_ankle", (f"{leg}_SHANK", f"{leg}_FOOT"), ((0, 0, -0.13), (0, 0, 0.01)))
    stage.GetRootLayer().Save()


def write_ground(path: Path) -> None:
    """A plane."""
    from pxr import Usd, UsdGeom, UsdPhysics

    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, "/Ground").GetPrim())
    plane = UsdGeom.Plane.Define(stage, "/Ground/GroundPlane/CollisionPlane")
    plane.CreateAxisAttr("Z")
    UsdPhysics.CollisionAPI.Apply(plane.GetPrim())
    stage.GetRootLayer().Save()


def make_anymal(folder: Path, *, history: int = 3, episode_s: float = 0.6) -> Any:
    """The environment of the task, with DC motors, one robot, and a history of joint positions."""
    import isaaclab.sim as sim_utils
    from isaaclab.envs import ManagerBasedRLEnv
    from isaaclab_assets.robots.anymal import ANYDRIVE_3_SIMPLE_ACTUATOR_CFG
    from isaaclab_tasks.core.velocity.config.anymal_d.flat_env_cfg import AnymalDFlatEnvCfg

    write_quadruped(folder / "anymal.usda")
    write_ground(folder / "ground.usda")
    config: Any = AnymalDFlatEnvCfg()
    config.sim.device, config.scene.num_envs, config.seed = "cpu", 1, 1
    config.sim.use_newton_actuators = False
    config.scene.robot.spawn.usd_path = str(folder / "anymal.usda")
    config.scene.robot.actuators = {"legs": ANYDRIVE_3_SIMPLE_ACTUATOR_CFG}
    config.scene.terrain.visual_material = None
    config.scene.sky_light.spawn.texture_file = None
    config.commands.base_velocity.debug_vis = False
    physics = getattr(config.sim.physics, "newton_mjwarp", config.sim.physics)
    physics.use_cuda_graph = False
    config.sim.physics = physics
    config.observations.policy.enable_corruption = False
    config.observations.policy.joint_pos.history_length = history
    config.episode_length_s = episode_s
    made = sim_utils.GroundPlaneCfg.__init__

    def with_own_plane(self: Any, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        self.usd_path = str(folder / "ground.usda")

    sim_utils.GroundPlaneCfg.__init__ = with_own_plane
    try:
        env = ManagerBasedRLEnv(config)
    finally:
        sim_utils.GroundPlaneCfg.__init__ = made
    env.reset()
    return env


class Anymal(ExportableEnvironment):
    """An adapter of the task: observations, actions, and what the robot measures."""

    def __init__(self, env: Any):
        super().__init__()
        self.env = env
        self.robot = env.scene["robot"]
        self._hooks: tuple[Any, ...] = (_ignore, _ignore, _ignore)
        data, term = self.robot.data, env.command_manager.get_term("base_velocity")
        rings = env.observation_manager._group_obs_term_history_buffer["policy"]
        self.context_manager().add_components(
            [
                Input("pose", lambda: data.root_link_pose_w.torch),
                Input("velocity", lambda: data.root_com_vel_w.torch),
                Input("joint_pos", lambda: data.joint_pos.torch),
                Input("joint_vel", lambda: data.joint_vel.torch),
                Input("command", lambda: term.vel_command_b),
                Output("targets", lambda: data.joint_pos_target.torch),
                Memory("actions", lambda: env.action_manager._action),
                *(Memory(f"{name}_frames", partial(getattr, ring, "_buffer")) for name, ring in rings.items()),
                *(Memory(f"{name}_pushes", partial(getattr, ring, "_num_pushes")) for name, ring in rings.items()),
            ]
        )

    def compute_observations(self) -> torch.Tensor:
        observations: torch.Tensor = self.env.observation_manager.compute_group("policy", update_history=True)
        return observations

    def process_actions(self, actions: torch.Tensor) -> None:
        self.env.action_manager.process_action(actions)

    def apply_actions(self) -> None:
        self.env.action_manager.apply_action()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, bool]:
        env, (update, reset, evaluate_substep) = self.env, self._hooks
        apply, compute, reset_rows = env.action_manager.apply_action, env.observation_manager.compute, env._reset_idx
        sub_steps = iter(range(self.decimation))

        def applied() -> None:
            apply()
            evaluate_substep(next(sub_steps))

        def computed(*args: Any, **options: Any) -> Any:
            update()
            return compute(*args, **options)

        def was_reset(rows: Any) -> None:
            reset_rows(rows)
            reset()

        env.action_manager.apply_action, env.observation_manager.compute, env._reset_idx = applied, computed, was_reset
        try:
            observations, _, terminated, truncated, _ = env.step(actions)
        finally:
            for owner, name in (
                (env.action_manager, "apply_action"),
                (env.observation_manager, "compute"),
                (env, "_reset_idx"),
            ):
                vars(owner).pop(name)
        return observations["policy"], bool((terminated | truncated).any())

    def observations_reset(self) -> torch.Tensor:
        self._hooks[0]()
        return self.compute_observations()

    def prepare_export(self) -> None:
        pass

    def empty_actor_observations(self) -> torch.Tensor:
        return torch.zeros(1, *self.env.observation_manager.group_obs_dim["policy"])

    def empty_actions(self) -> torch.Tensor:
        return torch.zeros(1, self.env.action_manager.total_action_dim)

    def metadata(self) -> dict[str, Any]:
        return {"sim_dt": self.env.physics_dt}

    @property
    def decimation(self) -> int:
        return int(self.env.cfg.decimation)

    def register_evaluation_hooks(self, update: Any, reset: Any, evaluate_substep: Any) -> None:
        self._hooks = (update, reset, evaluate_substep)

    def get_observation_names(self) -> list[str]:
        return [f"obs_{index}" for index in range(self.empty_actor_observations().shape[1])]


def _ignore(*_: object) -> None:
    pass
