"""Substitutes for the code of Isaac Lab that cannot be captured."""

import importlib
import importlib.util
from typing import Any

import torch

from exploy.environment.substitutes import Substitute, substitute
from exploy.simulators.articulation_data import TorchArticulationData, TorchRootState, outdate
from exploy.simulators.ring_buffers import (
    FillingBuffer,
    ShiftingBufferOfIsaacLab2,
    ShiftingDelay,
    as_ring,
    delay_as_ring,
    delay_in_order_of_time,
    in_order_of_time,
    random_call,
    random_call_of_delay,
)


def isaaclab_substitutes() -> list[Substitute]:
    """Substitutes for the ring buffers of Isaac Lab 2.3 or 3.0, and for what Warp computes in 3.0 on Newton.

    Isaac Lab must be installed.

    Example:
        >>> env.context_manager().add_substitutes(isaaclab_substitutes())
    """
    found = buffer_substitutes(importlib.import_module("isaaclab.utils.buffers"))
    if importlib.util.find_spec("isaaclab_newton") is not None:
        data = importlib.import_module("isaaclab_newton.assets.articulation.articulation_data")
        actuators = importlib.import_module("isaaclab.actuators.actuator_collection")
        found.append(substitute(actuators.ActuatorTargetCommand._set_index, set_index))
        rigid = importlib.import_module("isaaclab_newton.assets.rigid_object.rigid_object_data")
        found.append(substitute(actuators.ActuatorCollection._scatter_actuator_output, scatter_actuator_output))
        found.append(substitute(data.ArticulationData, TorchArticulationData, prepare=outdate))
        found.append(substitute(rigid.RigidObjectData, TorchRootState, prepare=outdate))
    return found


def set_index(
    command: Any, command_name: str, target_buffer: Any, value: Any, env_ids: Any, joint_ids: Any, full_data: bool
) -> None:
    """Write commands for some joints of some robots, as `ActuatorTargetCommand` of Isaac Lab 3 does with a kernel."""
    collection, warp = command._collection, importlib.import_module("warp")
    rows, columns = collection._control.resolve_env_ids(env_ids), collection._control.resolve_joint_ids(joint_ids)
    row_ids, column_ids, values = (
        item if isinstance(item, torch.Tensor) else warp.to_torch(item) for item in (rows, columns, value)
    )
    at = (row_ids.long()[:, None], column_ids.long())
    getattr(command, command_name).torch[at] = values[at] if full_data else values
    collection._control.stage_user_command(command_name, collection, rows, columns, None, None)


def scatter_actuator_output(collection: Any, actuator: Any, control_action: Any, joint_indices: Any = None) -> None:
    """Write what a model has computed to the arrays of all joints, as `ActuatorCollection` of Isaac Lab 3 does."""
    warp = importlib.import_module("warp")
    indices = collection._joint_indices_as_wp(actuator) if joint_indices is None else joint_indices
    columns = warp.to_torch(indices).long()
    for array, value in (
        (collection._joint_pos_target_sim_ta, control_action.joint_positions),
        (collection._joint_vel_target_sim_ta, control_action.joint_velocities),
        (collection._joint_effort_target_sim_ta, control_action.joint_efforts),
        (collection._computed_effort_ta, actuator.computed_effort),
        (collection._applied_effort_ta, actuator.applied_effort),
    ):
        if value is not None:
            array.torch[:, columns] = value
    warp.to_torch(collection._soft_joint_vel_limits)[:, columns] = actuator.actuator_velocity_limit


def buffer_substitutes(buffers: Any) -> list[Substitute]:
    """Substitutes for the buffers in `isaaclab.utils.buffers` of Isaac Lab 2 or 3."""
    if not hasattr(buffers.CircularBuffer, "stacked"):  # before 3.0, where delays use this buffer
        return [
            substitute(
                buffers.CircularBuffer,
                ShiftingBufferOfIsaacLab2,
                from_original=in_order_of_time,
                to_original=as_ring,
                random_call=random_call,
            )
        ]
    return [
        substitute(buffers.CircularBuffer, FillingBuffer, random_call=random_call),
        substitute(
            buffers.DelayBuffer,
            ShiftingDelay,
            from_original=delay_in_order_of_time,
            to_original=delay_as_ring,
            random_call=random_call_of_delay,
            unread=("_buffer",),
        ),
    ]
