"""Runs the pipeline of a live environment on trial: whatever a trial does is taken back."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from exploy.exporter.capture.object_graph import instance_dict, resolve_in
from exploy.exporter.capture.pipeline import live_objects
from exploy.exporter.capture.program import ACTIONS, OBSERVATIONS, FrozenTensor
from exploy.exporter.capture.recording import plain_torch
from exploy.exporter.capture.snapshot import ProtectUnseen, Snapshot
from exploy.exporter.core.actor import ExportableActor
from exploy.exporter.core.components import to_numpy
from exploy.exporter.core.environment_checks import checked_tensor
from exploy.exporter.core.exportable_environment import ExportableEnvironment
from exploy.verify.closed_loop import gradient_mode, stepped

Results = list[dict[str, np.ndarray]]

_SUB_STEPS = 2


class Experiments:
    """The live environment and its actor, with trials from the state that they are in.

    Args:
        env: The environment.
        actor: The actor, in evaluation mode.
    """

    def __init__(self, env: ExportableEnvironment, actor: ExportableActor):
        self.env = env
        self.actor = actor
        self._snapshot: Snapshot | None = None

    @property
    def roots(self) -> dict[str, object]:
        """The live objects, by the name that their paths start with."""
        return live_objects(self.env, self.actor)

    def resolve(self, path: str) -> Any:
        """What a path leads to now; None where it leads nowhere."""
        return resolve_in(self.roots, path)

    def live(self, frozen: FrozenTensor) -> Any:
        """The tensor or array that a program keeps a copy of, as it is now; None where no path leads to it any more."""
        return frozen.live if frozen.live is not None else self.resolve(frozen.name)

    @contextlib.contextmanager
    def trial(self) -> Iterator[Snapshot]:
        """Everything done inside is taken back at the end, and before at `restore()` of the snapshot.

        A trial inside of another one starts from, and goes back to, where the outer one started.
        """
        if self._snapshot is not None:
            try:
                yield self._snapshot
            finally:
                self._snapshot.restore()
            return
        snapshot = self._snapshot = Snapshot(self.roots)
        try:
            with snapshot, plain_torch(), ProtectUnseen(snapshot), snapshot.gradient_mode():
                yield snapshot
        finally:
            self._snapshot = None

    def step(self) -> bool:
        """Make a real policy step, which is not taken back, and say whether the environment was reset.

        Raises:
            Exception: Whatever the environment raises.
        """
        with gradient_mode(self.env.context_manager()):
            observations = checked_tensor(self.env, "observations_reset")
            return stepped(self.env, self.actor(observations))[1]

    def observe(self) -> torch.Tensor:
        """Compute the observations as the file would."""
        self.env.context_manager().write_connections()
        for update in self.env.command_updates:
            update()
        return self.env.compute_observations()

    def policy_step(self) -> Results:
        """Run one policy step and some of its sub-steps, and return what each gave."""
        manager = self.env.context_manager()
        observations = self.observe()
        results: Results = [{OBSERVATIONS: to_numpy(observations)}]
        actions = self.actor(observations)
        results[0][ACTIONS] = to_numpy(actions)
        self.env.process_actions(actions)
        self.env.apply_actions()
        results[0] |= self._outputs()
        for _ in range(min(self.env.decimation - 1, _SUB_STEPS)):
            manager.write_connections()
            self.env.apply_actions()
            results.append(self._outputs())
        return results

    def results_with(self, changes: dict[str, object], snapshot: Snapshot) -> Results | None:
        """The results of a policy step with other values at some paths; None if it fails. Taken back at once."""
        try:
            for path, value in changes.items():
                assign(self.roots, path, value)
            return self.policy_step()
        except Exception:
            return None
        finally:
            snapshot.restore()

    def _outputs(self) -> dict[str, np.ndarray]:
        outputs = self.env.context_manager().get_output_components()
        return {item.output_name: item.value_numpy for item in outputs}


def assign(roots: dict[str, object], path: str, value: object) -> None:
    """Write a value to the attribute or item that a path leads to, past any `__setattr__` of the user's.

    Raises:
        KeyError: If there is nothing to write to.
    """
    if path.endswith("]"):
        holder, _, key = path.rpartition("[")
        resolve_in(roots, holder)[_literal(key[:-1])] = value
        return
    holder, _, attribute = path.rpartition(".")
    owner = resolve_in(roots, holder)
    attributes = instance_dict(owner)
    if attribute in attributes:
        attributes[attribute] = value
    elif owner is not None:
        object.__setattr__(owner, attribute, value)
    else:
        raise KeyError(path)


def same_results(one: Results | None, two: Results | None, tolerance: float = 0.0) -> bool:
    """Whether two policy steps gave the same; failed ones are the same as nothing."""
    if one is None or two is None or len(one) != len(two):
        return False
    return all(
        np.allclose(value, other[name], rtol=tolerance, atol=tolerance, equal_nan=value.dtype.kind == "f")
        for step, other in zip(one, two, strict=True)
        for name, value in step.items()
    )


def _literal(key: str) -> str | int:
    return key[1:-1].encode().decode("unicode_escape") if key[0] in "'\"" else int(key)
