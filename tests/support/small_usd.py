"""Small USD files with the body and joint names of real robots, in place of those on a server."""

from pathlib import Path
from typing import Any

from pxr import Gf, Usd, UsdGeom, UsdPhysics

Vector = tuple[float, float, float]


def write_cart_pole(path: Path) -> Path:
    """Write Isaac Lab's cart-pole: a slider, a cart on it, and a pole."""
    stage, root = _stage(path, "/Robot")
    UsdPhysics.ArticulationRootAPI.Apply(root)
    _body(stage, "/Robot/slider", (0, 0, 0), (8, 0.03, 0.03), 1.0, collides=False)
    _body(stage, "/Robot/cart", (0, 0, 0), (0.2, 0.25, 0.2), 1.0, collides=False)
    _body(stage, "/Robot/pole", (0, 0, 0.5), (0.04, 0.06, 1.0), 1.0, collides=False)
    _joint(stage, UsdPhysics.FixedJoint, "/Robot/root_joint", None, "/Robot/slider")
    slider = _joint(stage, UsdPhysics.PrismaticJoint, "/Robot/slider_to_cart", "/Robot/slider", "/Robot/cart")
    _drive(slider, "linear", "X", (-4, 4))
    pole = _joint(stage, UsdPhysics.RevoluteJoint, "/Robot/cart_to_pole", "/Robot/cart", "/Robot/pole", at=(0, 0, -0.5))
    _drive(pole, "angular", "Y", (-1e6, 1e6))
    return _saved(stage, path)


def write_anymal(path: Path) -> Path:
    """Write a quadruped of boxes with ANYmal's bodies and joints; the centre of mass of its base is not its origin."""
    stage, _ = _stage(path, "/Robot")
    base = _body(stage, "/Robot/base", (0, 0, 0), (0.6, 0.3, 0.2), 20.0, centre=(0.05, -0.02, 0.03))
    UsdPhysics.ArticulationRootAPI.Apply(base)
    for leg, ahead, left in (("LF", 1, 1), ("LH", -1, 1), ("RF", 1, -1), ("RH", -1, -1)):
        _add_leg(stage, f"/Robot/{leg}", ahead, left)
    return _saved(stage, path)


def _add_leg(stage: Any, leg: str, ahead: int, left: int) -> None:
    hip = (0.3 * ahead, 0.15 * left, 0.0)
    x, y = hip[0], hip[1] + 0.05 * left
    _body(stage, f"{leg}_HIP", hip, (0.08, 0.08, 0.08), 1.5, collides=False)
    _body(stage, f"{leg}_THIGH", (x, y, -0.13), (0.05, 0.05, 0.2), 2.0)
    _body(stage, f"{leg}_SHANK", (x, y, -0.39), (0.04, 0.04, 0.2), 0.6, collides=False)
    _body(stage, f"{leg}_FOOT", (x, y, -0.53), (0.05, 0.05, 0.05), 0.1)
    revolute = UsdPhysics.RevoluteJoint
    haa = _joint(stage, revolute, f"{leg}_HAA", "/Robot/base", f"{leg}_HIP", hip)
    hfe = _joint(stage, revolute, f"{leg}_HFE", f"{leg}_HIP", f"{leg}_THIGH", (0, 0.05 * left, 0), (0, 0, 0.13))
    kfe = _joint(stage, revolute, f"{leg}_KFE", f"{leg}_THIGH", f"{leg}_SHANK", (0, 0, -0.13), (0, 0, 0.13))
    foot = (0, 0, -0.13), (0, 0, 0.01)
    _joint(stage, UsdPhysics.FixedJoint, f"{leg}_foot_fixed", f"{leg}_SHANK", f"{leg}_FOOT", *foot)
    _drive(haa, "angular", "X", (-40, 40))
    _drive(hfe, "angular", "Y", (-120, 120))
    _drive(kfe, "angular", "Y", (-150, 150))


def write_ground(path: Path) -> Path:
    """Write a plane."""
    stage, _ = _stage(path, "/Ground")
    plane = UsdGeom.Plane.Define(stage, "/Ground/GroundPlane/CollisionPlane")
    plane.CreateAxisAttr("Z")
    UsdPhysics.CollisionAPI.Apply(plane.GetPrim())
    return _saved(stage, path)


def _stage(path: Path, root: str) -> tuple[Any, Any]:
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    prim = UsdGeom.Xform.Define(stage, root).GetPrim()
    stage.SetDefaultPrim(prim)
    return stage, prim


def _saved(stage: Any, path: Path) -> Path:
    stage.GetRootLayer().Save()
    return path


def _body(
    stage: Any,
    path: str,
    position: Vector,
    size: Vector,
    mass: float,
    collides: bool = True,
    centre: Vector = (0, 0, 0),
) -> Any:
    transform = UsdGeom.Xform.Define(stage, path)
    transform.AddTranslateOp().Set(Gf.Vec3d(*position))
    prim = transform.GetPrim()
    UsdPhysics.RigidBodyAPI.Apply(prim)
    masses = UsdPhysics.MassAPI.Apply(prim)
    masses.CreateMassAttr(mass)
    inertia = [mass * (size[(k + 1) % 3] ** 2 + size[(k + 2) % 3] ** 2) / 12 + 1e-4 for k in range(3)]
    masses.CreateDiagonalInertiaAttr(Gf.Vec3f(*inertia))
    masses.CreateCenterOfMassAttr(Gf.Vec3f(*centre))
    masses.CreatePrincipalAxesAttr(Gf.Quatf(1))
    box = UsdGeom.Cube.Define(stage, f"{path}/geom")
    box.CreateSizeAttr(1.0)
    box.AddScaleOp().Set(Gf.Vec3f(*size))
    if collides:
        UsdPhysics.CollisionAPI.Apply(box.GetPrim())
    return prim


def _joint(
    stage: Any, kind: Any, path: str, parent: str | None, child: str, on: Vector = (0, 0, 0), at: Vector = (0, 0, 0)
) -> Any:
    joint = kind.Define(stage, path)
    if parent is not None:
        joint.CreateBody0Rel().SetTargets([parent])
    joint.CreateBody1Rel().SetTargets([child])
    joint.CreateLocalPos0Attr(Gf.Vec3f(*on))
    joint.CreateLocalPos1Attr(Gf.Vec3f(*at))
    joint.CreateLocalRot0Attr(Gf.Quatf(1))
    joint.CreateLocalRot1Attr(Gf.Quatf(1))
    return joint


def _drive(joint: Any, kind: str, axis: str, limits: tuple[float, float]) -> None:
    joint.CreateAxisAttr(axis)
    joint.CreateLowerLimitAttr(limits[0])
    joint.CreateUpperLimitAttr(limits[1])
    UsdPhysics.DriveAPI.Apply(joint.GetPrim(), kind)
