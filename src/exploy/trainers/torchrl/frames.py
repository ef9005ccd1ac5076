"""Frame stacking as memory."""

from typing import Any

import torch

from exploy.trainers.torchrl.keys import NEXT, Key
from exploy.trainers.torchrl.stages import Keys, MemoryKeys, Stage


class StackedFrames(Stage):
    """The last frames of an observation behind each other, as `CatFrames` gives them.

    After a reset all frames are the first one (padding "same") or a constant (padding "constant").

    Args:
        transform: The `CatFrames`.
        read: The key of the observation.
        written: The key of the frames.
    """

    def __init__(self, transform: Any, read: Key, written: Key):
        super().__init__(f"CatFrames of {'_'.join(read)}")
        self._read, self._written = read, written
        self._count, self._dim = int(transform.N), int(transform.dim)
        self._is_same = transform.padding == "same"
        self._padding = float(transform.padding_value)
        self._frames = (*read[:-1], f"{read[-1]}_frames")
        self._started = (*read[:-1], f"{read[-1]}_started")

    def needs(self, wanted: Keys) -> Keys | None:
        """The observation, and what is remembered."""
        if self._written not in wanted:
            return None
        return (wanted - self.writes()) | {self._read} | {memory.read for memory in self.memories()}

    def memories(self) -> list[MemoryKeys]:
        """The frames, and whether there have been some since the reset."""
        frames = MemoryKeys(self._frames, (NEXT, *self._frames), torch.tensor(self._padding), is_optional=True)
        started = MemoryKeys(self._started, (NEXT, *self._started), is_optional=True)
        return [frames, started] if self._is_same else [frames]

    def writes(self) -> set[Key]:
        """The frames, now and for the next step."""
        return {self._written, *(memory.written for memory in self.memories())}

    def forward(self, tensordict: Any) -> Any:
        """Add a frame and drop the oldest one."""
        frame = tensordict.get(self._read)
        repeats = [self._count if axis == frame.ndim + self._dim else 1 for axis in range(frame.ndim)]
        frames = tensordict.get(self._frames, None)
        if frames is None:
            frames = torch.full_like(frame, self._padding).repeat(repeats)
        size = frame.shape[self._dim]
        stacked = torch.cat([frames.narrow(self._dim, size, frames.shape[self._dim] - size), frame], dim=self._dim)
        if self._is_same:
            batch = tensordict.batch_size
            started = tensordict.get(self._started, torch.zeros(*batch, 1, dtype=torch.bool))
            is_on = started.reshape(*batch, *[1] * (frame.ndim - len(batch)))
            stacked = torch.where(is_on, stacked, frame.repeat(repeats))
            tensordict.set((NEXT, *self._started), torch.ones_like(started))
        tensordict.set((NEXT, *self._frames), stacked)
        tensordict.set(self._written, stacked)
        return tensordict
