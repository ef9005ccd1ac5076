"""Ring buffers that shift, for those of mjlab and Isaac Lab, which count in Python where the next frame goes.

The methods here are called with instances of the libraries' own classes. While they are, frames are in the order of
time, the newest last. `_pointer` counts on as in the original, but nothing reads it until the ring is restored.
"""

from typing import Any

import torch


class ShiftingBuffer:
    """`CircularBuffer` of mjlab 1.6."""

    def append(self: Any, data: torch.Tensor) -> None:
        """Forget the oldest frame and add a newest one; it fills the whole history of rows that have none.

        Raises:
            ValueError: If the batch size is another one.
        """
        frame = _frame(self, data)
        if self._buffer is None:
            self._pointer = -1
            shape = (self.max_length, *frame.shape)
            self._buffer = torch.empty(shape, dtype=frame.dtype, device=frame.device)
        self._pointer = (self._pointer + 1) % self.max_length
        is_first = (self._num_pushes == 0).view(1, -1, *[1] * (frame.dim() - 1))
        newest = frame.to(self._buffer.dtype).unsqueeze(0)
        self._buffer.copy_(torch.where(is_first, newest, torch.cat((self._buffer[1:], newest))))
        self._num_pushes += 1

    @property
    def buffer(self: Any) -> torch.Tensor:
        """All frames from the oldest to the newest, with the batch first.

        Raises:
            RuntimeError: If there is no frame.
        """
        if self._buffer is None:
            raise RuntimeError("The buffer is empty: append() comes first.")
        return _frames(self)

    def __getitem__(self: Any, key: torch.Tensor | int) -> torch.Tensor:
        """The frames of some steps ago, one number of steps per row; the oldest one where there are fewer.

        Raises:
            RuntimeError: If there is no frame.
            ValueError: If there are more or fewer numbers than rows.
        """
        if self._buffer is None:
            raise RuntimeError("The buffer is empty: append() comes first.")
        lags = torch.as_tensor(key, dtype=torch.long, device=self._num_pushes.device)
        lags = lags.expand(self._batch_size) if lags.dim() == 0 else lags
        if lags.numel() != self._batch_size:
            raise ValueError(f"There are {self._batch_size} rows, but {lags.numel()} lags.")
        longest = self._num_pushes.clamp(1, self.max_length) - 1
        return _frames_of(self, torch.minimum(lags, longest).clamp_min(0), self._all_indices)


class ShiftingBufferOfIsaacLab2:
    """`CircularBuffer` of Isaac Lab 2."""

    append = ShiftingBuffer.append

    @property
    def buffer(self: Any) -> torch.Tensor:
        """All frames from the oldest to the newest, with the batch first."""
        return _frames(self)

    def __getitem__(self: Any, key: torch.Tensor) -> torch.Tensor:
        """The frames of some steps ago, one number of steps per row; the oldest one where there are fewer.

        Rows without a frame give zeros, where the original raises.

        Raises:
            RuntimeError: If there is no frame.
            ValueError: If there are more or fewer numbers than rows.
        """
        if len(key) != self.batch_size:
            raise ValueError(f"There are {self.batch_size} rows, but {len(key)} lags.")
        if self._buffer is None:
            raise RuntimeError("The buffer is empty: append() comes first.")
        return _frames_of(self, torch.minimum(key, self._num_pushes - 1), self._ALL_INDICES)


class FillingBuffer:
    """`CircularBuffer` of Isaac Lab 3, which shifts by itself, but decides in Python whether rows have no frame yet."""

    def append(self: Any, data: torch.Tensor) -> None:
        """Forget the oldest frame and add a newest one; it fills the whole history of rows that have none.

        Raises:
            ValueError: If the batch size is another one.
        """
        frame = _frame(self, data)
        if self._buffer is None:
            self._allocate_buffer(frame)
        dim = self._stack_dim_internal or 0
        newest = frame.to(self._buffer.dtype).unsqueeze(dim)
        shifted = torch.cat((self._buffer.narrow(dim, 1, self.max_length - 1), newest), dim)
        rows = (1, -1) if dim == 0 else (-1,)
        is_first = (self._num_pushes == 0).view(*rows, *[1] * (shifted.dim() - len(rows)))
        self._buffer.copy_(torch.where(is_first, newest, shifted))
        self._need_reset = False
        self._num_pushes += 1


class ShiftingDelay:
    """`DelayBuffer` of Isaac Lab 3, whose ring is not where it was at the last reset.

    A reset also forgets the frames, which nothing can read then, so that episodes start alike.
    """

    def compute(self: Any, data: torch.Tensor, *, update_history: bool = True) -> torch.Tensor:
        """The frames of some steps ago; the oldest one where there are fewer. The data are a new frame, if wanted.

        Raises:
            ValueError: If the batch size or the shape is another one.
        """
        frame = _frame(self, data)
        if self._buffer is None:
            if not update_history:
                return frame.clone()
            shape = (self.history_length + 1, *frame.shape)
            self._buffer = torch.zeros(shape, dtype=frame.dtype, device=frame.device)
        if frame.shape != self._buffer.shape[1:]:
            raise ValueError(f"A frame has the shape {tuple(self._buffer.shape[1:])}, got {tuple(frame.shape)}.")
        frame = frame.to(self._buffer.dtype)
        if not update_history:
            has_frame = (self._num_pushes > 0).view(-1, *[1] * (frame.dim() - 1))
            return torch.where(has_frame, _delayed(self, (self._num_pushes - 1).clamp_min(0)), frame)
        if self._hold_prob is not None and self._hold_prob < 1:
            self._time_lags.copy_(_drawn_lags(self))
        self._buffer.copy_(torch.cat((self._buffer[1:], frame.unsqueeze(0))))
        result = _delayed(self, self._num_pushes)
        self._num_pushes.add_(1)
        self._write_index.add_(1).remainder_(self.history_length + 1)
        return result

    def reset(self: Any, batch_ids: Any = None) -> None:
        """Forget the frames of some rows, or of all, and draw their delays anew if they are drawn."""
        rows = slice(None) if batch_ids is None else batch_ids
        self._num_pushes[rows] = 0
        if self._buffer is not None:
            self._buffer[:, rows] = 0
        if self._hold_prob is not None:
            shape, options = self._time_lags[rows].shape, {"dtype": self._time_lags.dtype, "device": self.device}
            self._time_lags[rows] = torch.randint(self._min_lag, self.history_length + 1, shape, **options)


def _delayed(delay: Any, most: torch.Tensor) -> torch.Tensor:
    frames: torch.Tensor = delay._buffer[
        delay.history_length - torch.minimum(delay._time_lags, most), delay._ALL_INDICES
    ]
    return frames


def _drawn_lags(delay: Any) -> torch.Tensor:
    """The delays of the next step, without a random number where there is only one delay to draw."""
    if delay._min_lag == delay.history_length:
        return torch.full_like(delay._time_lags, delay._min_lag)
    options = {"dtype": delay._time_lags.dtype, "device": delay.device}
    lags = torch.randint(delay._min_lag, delay.history_length + 1, (delay.batch_size,), **options)
    if delay._hold_prob == 0:
        return lags
    return torch.where(torch.rand(delay.batch_size, device=delay.device) >= delay._hold_prob, lags, delay._time_lags)


def delay_in_order_of_time(delay: Any) -> None:
    """Turn the ring of a delay until its newest frame is the last one."""
    if delay._buffer is not None:
        delay._buffer.copy_(delay._buffer.roll(-int(delay._write_index), 0))


def delay_as_ring(delay: Any) -> None:
    """Turn the frames of a delay back, so that the next frame goes to where its index says."""
    if delay._buffer is not None:
        delay._buffer.copy_(delay._buffer.roll(int(delay._write_index), 0))


def random_call_of_delay(delay: Any, generator: torch.Generator) -> tuple[Any, ...]:
    """A call of a delay with random data: a frame, or a reset of some rows."""
    if delay._buffer is None or _chosen(3, generator) == 0:
        return "reset", _random_rows(delay, generator)
    frame = 10 * torch.randn(delay._buffer.shape[1:], generator=generator)
    return "compute", frame.to(delay._buffer.dtype).to(delay.device)


def in_order_of_time(buffer: Any) -> None:
    """Turn the ring of a buffer until its newest frame is the last one."""
    if buffer._buffer is not None:
        buffer._buffer.copy_(buffer._buffer.roll(-(buffer._pointer + 1), 0))


def as_ring(buffer: Any) -> None:
    """Turn the frames of a buffer back, so that its newest frame is where its pointer says."""
    if buffer._buffer is not None:
        buffer._buffer.copy_(buffer._buffer.roll(buffer._pointer + 1, 0))


def random_call(buffer: Any, generator: torch.Generator) -> tuple[Any, ...]:
    """A call of a buffer with random data: a frame, a reset of some rows, or a look at all frames."""
    name = ("append", "append", "reset", "buffer", "current_length")[_chosen(5, generator)]
    if name == "append" and buffer._buffer is not None:
        return name, _random_frame(buffer, generator)
    if name == "reset":
        return name, _random_rows(buffer, generator)
    return (name if name == "buffer" and buffer._buffer is not None else "current_length",)


def random_call_of_mjlab(buffer: Any, generator: torch.Generator) -> tuple[Any, ...]:
    """A call of a buffer of mjlab with random data: also a frame for some rows alone, and frames of some steps ago."""
    if buffer._buffer is None or _chosen(2, generator):
        return random_call(buffer, generator)
    if _chosen(2, generator):
        return "backfill", _random_frame(buffer, generator), _random_rows(buffer, generator)
    lags = torch.randint(buffer.max_length + 2, (buffer.batch_size,), generator=generator)
    return "__getitem__", lags.to(buffer.device)


def _frame(buffer: Any, data: torch.Tensor) -> torch.Tensor:
    if data.shape[0] != buffer.batch_size:
        raise ValueError(f"The buffer has {buffer.batch_size} rows, but the frame has {data.shape[0]}.")
    return data.to(buffer.device)


def _frames(buffer: Any) -> torch.Tensor:
    frames: torch.Tensor = buffer._buffer.clone()
    return frames.transpose(0, 1)


def _frames_of(buffer: Any, lags: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    frames: torch.Tensor = buffer._buffer[torch.remainder(buffer.max_length - 1 - lags, buffer.max_length), rows]
    return frames


def _random_frame(buffer: Any, generator: torch.Generator) -> torch.Tensor:
    frame = 10 * torch.randn(buffer.buffer[:, 0].shape, generator=generator)
    return frame.to(buffer.buffer.dtype).to(buffer.device)


def _random_rows(buffer: Any, generator: torch.Generator) -> torch.Tensor:
    return torch.nonzero(torch.rand(buffer.batch_size, generator=generator) < 0.5).flatten().to(buffer.device)


def _chosen(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))
