"""The functions of mjlab, and how to call them: terms of real tasks with their parameters."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import mjlab

from tests.support.function_runs import Call, tensors_read
from tests.support.library_functions import Function, calls_of, functions_of, modules_named
from tests.support.math_arguments import ARGUMENTS
from tests.support.mjlab_tasks import make_task

_ROUGH, _TRACKING = "Mjlab-Velocity-Rough-Unitree-G1", "Mjlab-Tracking-Flat-Unitree-G1"
_CAMERA, _SEGMENTED = "Mjlab-Lift-Cube-Yam-Rgb", "Mjlab-Multi-Cube-Seg-Yam"
_TASKS = (_ROUGH, _TRACKING, _CAMERA, "Mjlab-Lift-Cube-Yam-Depth", _SEGMENTED)
_TERMS = 2  # of different tasks

# Functions that are no terms of these tasks: a task, and the values of parameters, some like those of another function.
_OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "base_lin_vel": (_ROUGH, {}),
    "base_ang_vel": (_ROUGH, {}),
    "projected_gravity_from_sensor": (_ROUGH, {"sensor_name": "robot/imu_lin_vel"}),
    "ee_velocity": (_CAMERA, {"asset_cfg": "target_position"}),
    "camera_segmentation": (_SEGMENTED, {"sensor_name": "camera_d405"}),
}


@functools.cache
def _task(name: str) -> Any:
    return make_task(name)


def functions() -> list[Function]:
    """All functions of the modules with observations and with mathematics."""
    modules = modules_named(mjlab, "mdp/observations.py", "lab_api/math.py")
    return [function for module in modules for function in functions_of(module)]


def calls(function: Function) -> list[Call]:
    """Calls of a function; raises LookupError if it is not known how to call it."""
    if not function.reads_environment:
        return calls_of(function, ARGUMENTS)
    terms = itertools.islice(_terms(function), _TERMS)
    found = [_call(function, env, params) for env, params in terms]
    if not found and function.name in _OTHERS:
        task, params = _OTHERS[function.name]
        given = {name: _value(task, name, value) for name, value in params.items()}
        found = [_call(function, _task(task), given)]
    if not found:
        raise LookupError(f"say how to call {function.module}.{function.name}")
    return found


def _terms(function: Function) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The first term of each task that is this function; tasks are made one after the other."""
    for task in () if function.name in _OTHERS else _TASKS:
        yield from [(_task(task), term.params) for term in _all_terms(task) if term.func is function.function][:1]


def _all_terms(task: str) -> list[Any]:
    groups = _task(task).observation_manager._group_obs_term_cfgs.values()
    return [term for terms in groups for term in terms]


def _value(task: str, name: str, value: Any) -> Any:
    """A value for a parameter; in place of an entity's configuration, that of the term of another function."""
    if name != "asset_cfg":
        return value
    return next(term.params[name] for term in _all_terms(task) if term.func.__name__ == value)


def _call(function: Function, env: Any, params: dict[str, Any]) -> Call:
    call = functools.partial(function.function, env, **params)
    return Call(function.name, tensors_read(call), call)
