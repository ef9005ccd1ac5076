"""Notes buffers of modules that change during an evaluation: the file stores them like weights, so they should not."""

import numpy as np
import torch

from exploy.environment.exportable_environment import ExportableEnvironment
from exploy.environment.tensor_copies import to_numpy
from exploy.errors import ActorError
from exploy.live.geometry import Geometry, has_memory
from exploy.live.roots import live_objects
from exploy.verify.frozen_watch import as_array


class BufferNotes:
    """Compares the buffers of the actor and of registered modules with their values at the first look.

    Registered memories are left out. A buffer that forward() assigns is another tensor afterwards, so that buffers are
    looked up by name each time.

    Args:
        env: The environment.
        actor: The actor, if known.
    """

    def __init__(self, env: ExportableEnvironment, actor: torch.nn.Module | None):
        self.first_steps: dict[str, int] = {}
        self._env = env
        roots = live_objects(env, actor) if actor is not None else {}
        self._modules = {name: root for name, root in roots.items() if isinstance(root, torch.nn.Module)}
        self._stored: dict[str, np.ndarray] | None = None

    def __call__(self, step: int) -> None:
        """Note buffers that differ from their first value, by path."""
        if self._stored is None:
            memories = self._memories()
            self._stored = {
                name: to_numpy(value)
                for name, value in self._buffers().items()
                if not any(Geometry.of(value).overlaps(memory) for memory in memories)
            }
        for name, value in self._buffers().items():
            stored = self._stored.get(name)
            now = as_array(value)
            if stored is not None and now is not None and name not in self.first_steps and _differs(stored, now):
                self.first_steps[name] = step

    def _buffers(self) -> dict[str, torch.Tensor]:
        return {
            f"{root}.{name}": value
            for root, module in self._modules.items()
            for name, value in module.named_buffers()
            if has_memory(value)
        }

    def _memories(self) -> list[Geometry]:
        found = []
        for memory in self._env.context_manager().get_memory_components():
            try:
                found.append(Geometry.of(memory.fetch()))
            except ActorError:
                continue  # the actor has dropped its state
        return found


def _differs(one: np.ndarray, two: np.ndarray) -> bool:
    return one.shape != two.shape or not np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
