"""Converts environment transforms to stages before the policy, and their inverses to stages after it."""

from collections.abc import Callable
from typing import Any

import torch

from exploy.errors import PolicyError
from exploy.trainers.common.libraries import library
from exploy.trainers.torchrl.images import NEAREST, Resized, ResizedFirst, cropped, grey, resized
from exploy.trainers.torchrl.stages import Block, Everything, Keys, MemoryKeys, PerKey, Provided, Refused, Stage
from exploy.trainers.torchrl.tensordicts import EXTRA, NEXT, Key, as_key, as_keys, shown
from exploy.trainers.torchrl.torchrl_internals import (
    STATEFUL,
    STEPPING_THE_ENVIRONMENT,
    WITHOUT_PART_IN_A_STEP,
    filled_from_environment,
    function_of_tensor,
    function_of_tensordict,
    has_a_step_of_its_own,
    inverse_of_tensor,
    inverse_of_tensordict,
    inverts_by_tensor,
    peek,
    uninitialized,
    without_environment,
    works_by_tensor,
)

_WITHOUT_MEMORY_FORM = "it keeps a state between steps that cannot be stored as a memory of the file"


def parts_of(transforms: Any) -> list[Any]:
    """The single transforms in a transform, a list of transforms, or a transformed environment.

    Raises:
        PolicyError: If it is none of these.
    """
    if transforms is None:
        return []
    if isinstance(transforms, list | tuple):
        return [part for item in transforms for part in parts_of(item)]
    envs = library("torchrl.envs", EXTRA)
    if isinstance(transforms, envs.TransformedEnv):
        return parts_of(transforms.transform)
    if isinstance(transforms, envs.Compose):
        return [part for item in transforms.transforms for part in parts_of(item)]
    if isinstance(transforms, envs.Transform):
        return [transforms]
    raise PolicyError(
        f"transforms must be a torchrl Transform, a list of Transforms or a TransformedEnv, got "
        f"{type(transforms).__name__}."
    )


def transform_stages(transform: Any) -> list[Stage]:
    """The stages of a transform for observations.

    Raises:
        PolicyError: If it cannot be exported, even if its result is not used.
    """
    return _with_resizes_first([stage for part in parts_of(transform) for stage in _stages_of_one(part)])


def _with_resizes_first(stages: list[Stage]) -> list[Stage]:
    """Resize raw pixels first, if the conversion to tensors is directly before a nearest resize."""
    result: list[Stage] = []
    for stage in stages:
        before = result[-1] if result else None
        if isinstance(stage, PerKey) and isinstance(before, PerKey) and _are_resized_pixels(before, stage):
            form = ResizedFirst(stage.function, before.function.__self__)  # type: ignore[arg-type, attr-defined]
            result[-1] = PerKey("ToTensorImage and Resize", before.pairs, form)
        else:
            result.append(stage)
    return result


def _are_resized_pixels(conversion: PerKey, resize: PerKey) -> bool:
    transform: Any = getattr(conversion.function, "__self__", None)
    return (
        type(transform).__name__ == "ToTensorImage"
        and not (transform.unsqueeze or getattr(transform, "shape_tolerant", False))
        and isinstance(resize.function, Resized)
        and resize.function.mode in NEAREST
        and [(written, written) for _, written in conversion.pairs] == resize.pairs
    )


def _stages_of_one(transform: Any) -> list[Stage]:
    name = type(transform).__name__
    if name in WITHOUT_PART_IN_A_STEP:
        return []
    if name in STAGES_BY_NAME:
        return STAGES_BY_NAME[name](transform)
    refusal = _refusal_of(transform, as_keys(peek(transform, "in_keys")), as_keys(peek(transform, "out_keys")))
    return [refusal] if refusal is not None else _as_it_is(transform)


def _refusal_of(transform: Any, reads: list[Key], writes: list[Key]) -> Stage | None:
    """A placeholder stage for a transform that cannot be exported. None if it can be exported.

    Args:
        transform: The transform.
        reads: The keys that it reads.
        writes: The keys that it writes.
    """
    name = type(transform).__name__
    lazy = uninitialized(transform)
    if name in STEPPING_THE_ENVIRONMENT:
        reason = (
            f"{name} steps the environment itself. Export the policy without it, and implement it in your control loop."
        )
    elif name in STATEFUL or has_a_step_of_its_own(transform):
        reason = (
            f"{name} cannot be exported: {_WITHOUT_MEMORY_FORM}. Leave it out of the transforms and pass its "
            "result to the file as an input, or compute it in the policy and list its key in memories=."
        )
    elif lazy:
        reason = (
            f"{name} was never initialised ({', '.join(lazy)} has no shape yet). Reset its environment once, or set "
            "its values, before the export."
        )
    else:
        return None
    return Refused(name, reads, writes, reason)


def _as_it_is(transform: Any) -> list[Stage]:
    """A stage with a copy of the transform itself."""
    name, copied = type(transform).__name__, without_environment(transform)
    reads, writes = as_keys(peek(transform, "in_keys")), as_keys(peek(transform, "out_keys"))
    if works_by_tensor(copied):
        return [PerKey(name, list(zip(reads, writes, strict=True)), function_of_tensor(copied))]
    if not writes:
        return [Everything(name, function_of_tensordict(copied), has_own_keys=True)]
    copied.set_missing_tolerance(True)
    return [Block(name, reads, writes, function_of_tensordict(copied))]


def _pairs(transform: Any) -> list[tuple[Key, Key]]:
    reads, writes = as_keys(peek(transform, "in_keys")), as_keys(peek(transform, "out_keys"))
    return list(zip(reads, writes, strict=True))


def _per_key(make: Callable[[Any], Callable[[torch.Tensor], torch.Tensor]]) -> Callable[[Any], list[Stage]]:
    return lambda transform: [PerKey(type(transform).__name__, _pairs(transform), make(transform))]


def _normalization(transform: Any) -> list[Stage]:
    pairs = _pairs(transform)
    refusal = _refusal_of(transform, [read for read, _ in pairs], [written for _, written in pairs])
    return [refusal] if refusal is not None else _per_key(_Affine)(transform)


def _running_normalization(transform: Any) -> list[Stage]:
    name = type(transform).__name__
    reads, writes = as_keys(peek(transform, "in_keys")), as_keys(peek(transform, "out_keys"))
    try:
        fixed = transform.to_observation_norm()
    except Exception as error:
        reason = (
            f"{name} has no statistics to export ({type(error).__name__}: {error}). Export it after it has seen "
            "observations. For VecNormV2, use the stateful form."
        )
        return [Refused(name, reads, writes, reason)]
    return transform_stages(fixed)


def _frames(transform: Any) -> list[Stage]:
    if getattr(transform, "future", False) or getattr(transform, "as_inverse", False):
        reads, writes = as_keys(transform.in_keys), as_keys(transform.out_keys)
        return [
            Refused(
                "CatFrames",
                reads,
                writes,
                "CatFrames with future=True or as_inverse=True cannot be exported. Leave it out of the transforms.",
            )
        ]
    return [StackedFrames(transform, read, written) for read, written in _pairs(transform)]


def _counter(transform: Any) -> list[Stage]:
    keys = as_keys(peek(transform, "step_count_keys")) or [as_key(transform.step_count_key)]
    remembered = [MemoryKeys(key, (NEXT, *key), torch.zeros(1, dtype=torch.int64)) for key in keys]
    return [Provided("StepCounter", remembered, step=lambda count: count + 1)]


def _flags(transform: Any) -> list[Stage]:
    keys = as_keys(peek(transform, "init_keys")) or [as_key(transform.init_key)]
    return [Provided("InitTracker", flags=keys)]


def _starts(transform: Any) -> list[Stage]:
    stages: list[Stage] = []
    for key, spec in transform.primers.items(True, True):
        key = as_key(key)
        if transform.random:
            reason = (
                f"TensorDictPrimer(random=True) draws the initial value of {shown(key)}, which cannot be exported. "
                "Give it a default_value."
            )
            stages.append(Refused("TensorDictPrimer", [key], [key], reason))
            continue
        start = _start_of(transform, key, spec)
        stages.append(Provided("TensorDictPrimer", [MemoryKeys(key, key, start)]))
    return stages


def _start_of(transform: Any, key: Key, spec: Any) -> torch.Tensor:
    value = transform.default_value
    if callable(value):
        value = value()
        value = value.get(key) if transform.single_default_value else value
    elif hasattr(value, "items"):
        value = next(item for name, item in value.items() if as_key(name) == key)
        value = value() if callable(value) else value
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().to(spec.dtype)
    return torch.full(spec.shape, float(value)).to(spec.dtype)


def _cast(transform: Any) -> list[Stage]:
    reads, dtype_in, dtype_out = peek(transform, "in_keys"), transform.dtype_in, transform.dtype_out
    if reads is not None:
        return [PerKey(type(transform).__name__, _pairs(transform), lambda value: value.to(dtype_out))]

    def cast_all(tensordict: Any) -> Any:
        for key, value in list(tensordict.items(True, True)):
            if value.dtype == dtype_in:
                tensordict.set(key, value.to(dtype_out))
        return tensordict

    return [Everything(type(transform).__name__, cast_all)]


def _reshape(transform: Any) -> list[Stage]:
    if transform.reshape_fn is None:
        return []
    return [Everything("BatchSizeTransform", without_environment(transform).reshape_fn)]


def _rename(transform: Any) -> list[Stage]:
    def rename(tensordict: Any) -> Any:
        for read, written in pairs:
            value = tensordict.get(read, None)
            if value is not None:
                tensordict.set(written, value)
                if not is_copy:
                    tensordict.del_(read)
        return tensordict

    pairs, is_copy = _pairs(transform), transform.create_copy
    stage = PerKey("RenameTransform", pairs, lambda value: value)
    stage.forward = rename  # type: ignore[method-assign]
    return [stage]


STAGES_BY_NAME: dict[str, Callable[[Any], list[Stage]]] = {
    "BatchSizeTransform": _reshape,
    "CatFrames": _frames,
    "CenterCrop": _per_key(cropped),
    "Crop": _per_key(cropped),
    "DTypeCastTransform": _cast,
    "DoubleToFloat": _cast,
    "GrayScale": _per_key(grey),
    "InitTracker": _flags,
    "ObservationNorm": _normalization,
    "RenameTransform": _rename,
    "Resize": _per_key(resized),
    "StepCounter": _counter,
    "TensorDictPrimer": _starts,
    "VecNorm": _running_normalization,
    "VecNormV2": _running_normalization,
}


def inverse_stages(transforms: Any, action: Key) -> list[Stage]:
    """The stages of the transforms for actions. The last transform comes first.

    Args:
        transforms: The transforms.
        action: The key of the actions, for transforms without keys.
    """
    return [stage for part in reversed(parts_of(transforms)) for stage in _inverse_of_one(part, action)]


def _inverse_of_one(transform: Any, action: Key) -> list[Stage]:
    name, label = type(transform).__name__, f"the inverse of {type(transform).__name__}"
    writes, reads = peek(transform, "in_keys_inv"), peek(transform, "out_keys_inv")
    if name in ("DTypeCastTransform", "DoubleToFloat"):
        dtype = transform.dtype_in
        pairs = [(action, action)] if writes is None else list(zip(as_keys(reads), as_keys(writes), strict=True))
        return [PerKey(label, pairs, lambda value: value.to(dtype))]
    if name == "BatchSizeTransform" and transform.reshape_fn is not None:
        parent = peek(transform, "parent")
        return [] if parent is None else [Everything(label, _reshaped_to(tuple(parent.batch_size)))]
    if not writes:
        return []
    reads, writes = as_keys(reads), as_keys(writes)
    copied = filled_from_environment(transform)
    refusal = _refusal_of(copied, reads, writes)
    if refusal is not None:
        return [refusal]
    if name == "ObservationNorm":
        return [PerKey(label, list(zip(reads, writes, strict=True)), _Inverted(transform))]
    if inverts_by_tensor(copied):
        return [PerKey(label, list(zip(reads, writes, strict=True)), inverse_of_tensor(copied))]
    if name == "ActionDiscretizer" and not hasattr(copied, "intervals"):
        reason = (
            "ActionDiscretizer was never initialised. Read the action_spec of its environment once before the export."
        )
        return [Refused(name, reads, writes, reason)]
    return [Block(label, reads, writes, inverse_of_tensordict(copied))]


def _reshaped_to(batch_size: tuple[int, ...]) -> Callable[[Any], Any]:
    return lambda tensordict: tensordict.reshape(batch_size)


class _Affine(torch.nn.Module):
    """The computation of `ObservationNorm`.

    Args:
        transform: The `ObservationNorm`.
    """

    def __init__(self, transform: Any):
        super().__init__()
        self.loc: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("loc", transform.loc.detach().cpu().clone())
        self.register_buffer("scale", transform.scale.detach().cpu().clone())
        self.is_standard = bool(transform.standard_normal)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Normalise."""
        return (value - self.loc) / self.scale if self.is_standard else value * self.scale + self.loc


class _Inverted(_Affine):
    """The inverse of `ObservationNorm`."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value * self.scale + self.loc if self.is_standard else (value - self.loc) / self.scale


class StackedFrames(Stage):
    """Concatenates the last frames of an observation, like `CatFrames`.

    After a reset, all frames are copies of the first one (padding "same") or a constant (padding "constant").

    Args:
        transform: The `CatFrames`.
        read: The key of the observation.
        written: The key of the concatenated frames.
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
        """The observation and the memories."""
        if self._written not in wanted:
            return None
        return (wanted - self.writes()) | {self._read} | {memory.read for memory in self.memories()}

    def memories(self) -> list[MemoryKeys]:
        """The frames and, for padding "same", whether a frame was seen since the reset."""
        frames = MemoryKeys(self._frames, (NEXT, *self._frames), torch.tensor(self._padding), is_optional=True)
        started = MemoryKeys(self._started, (NEXT, *self._started), is_optional=True)
        return [frames, started] if self._is_same else [frames]

    def writes(self) -> set[Key]:
        """The frames for the policy and for the next step."""
        return {self._written, *(memory.written for memory in self.memories())}

    def forward(self, tensordict: Any) -> Any:
        """Append the new frame and drop the oldest one."""
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
