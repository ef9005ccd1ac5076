"""A tensor that is split into separate parts along one dimension."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from exploy.errors import ComponentError, DimensionError


class _Operator:
    """Placeholder for special methods in a class body; each name it is assigned to gets its own function."""

    def __init__(self, function_for: Callable[[str], Callable[..., Any]]):
        self._function_for = function_for

    def __set_name__(self, owner: type, name: str) -> None:
        setattr(owner, name, self._function_for(name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Tell type checkers that the special methods are callable; never called."""
        raise NotImplementedError


def _evaluated_by_tensor(name: str) -> Callable[..., Any]:
    def operator(self: "TensorProxy", *args: Any, **kwargs: Any) -> Any:
        return getattr(self._base, name)(*args_to_tensor(args), **args_to_tensor(kwargs))

    return operator


def _changing_tensor(name: str) -> Callable[..., Any]:
    evaluate = _evaluated_by_tensor(name)

    def operator(self: "TensorProxy", other: Any) -> Any:
        return NotImplemented if evaluate(self, other) is NotImplemented else self

    return operator


class TensorProxy:
    """Manage a list of tensors and expose them as a stacked tensor.

    Splits a tensor along a dimension and behaves like the original tensor:

        body_pos = torch.rand((batch, num_bodies, 3))
        proxy = TensorProxy(body_pos, split_dim=1)
        proxy[:, 2]  # the tensor of body 2, the same object each time

    Indexing one element of the split dimension indexes into one of the split tensors. For example, split
    `body_state_w` into separate body tensors, so that an exported graph depends only on the bodies that
    it uses.

    The split tensors are views: a write to the original tensor, the proxy or a split tensor changes all
    three. Set `requires_grad` of the original tensor before the proxy is created.

    A proxy is not an instance of torch.Tensor. Torch functions, operators, methods and attributes act on
    the original tensor and return plain tensors; in-place operators return the proxy. Errors are the same
    as for the original tensor. Setting an attribute raises AttributeError.

    To index a plain tensor with a proxy, write `plain[proxy.to_tensor()]`. Otherwise torch treats the proxy
    as a list of indices.
    """

    __slots__ = ("__weakref__", "_base", "_split_dim", "_tensors")

    __array_priority__ = torch.Tensor.__array_priority__

    def __init__(self, tensor: torch.Tensor, split_dim: int):
        """Split `tensor` along `split_dim`, which may be negative.

        Raises:
            ComponentError: If `tensor` is not a tensor or has no dimension, or `split_dim` is not an int.
            DimensionError: If `split_dim` is not one of its dimensions. Is also a ComponentError and an IndexError.
        """
        self._base = _validated_tensor(tensor)
        self._split_dim = _validated_dim(split_dim, tensor)
        self._tensors = _views_along(tensor, self._split_dim)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The split tensors, which are views of the original tensor. Returns the same objects each time."""
        return list(self._tensors)

    def to_tensor(self) -> torch.Tensor:
        """The original tensor, not a copy."""
        return self._base

    def __getitem__(self, idx: Any) -> torch.Tensor:
        """Index like the original tensor, with the same errors.

        One integer at the split dimension indexes that split tensor. If nothing else is indexed, the split tensor
        itself is returned. A list of integers at the split dimension, with nothing else indexed, stacks these split
        tensors and does not read the other ones.
        """
        idx = args_to_tensor(idx)
        chosen, rest = self._divide(idx)
        leaves_rest_alone = len(rest) < self._base.ndim and all(map(_is_full, rest))
        if _is_int(chosen) and self._has_split(chosen):
            split: torch.Tensor = self._tensors[chosen]
            return split if leaves_rest_alone else split[rest]
        numbers = _int_list(chosen)
        if numbers and leaves_rest_alone and all(map(self._has_split, numbers)):
            return torch.stack([self._tensors[number] for number in numbers], dim=self._split_dim)
        return self._base[idx]

    def __setitem__(self, idx: Any, value: Any) -> None:
        """Write like to the original tensor, with the same errors.

        One integer at the split dimension writes to that split tensor.
        """
        idx, value = args_to_tensor(idx), args_to_tensor(value)
        chosen, rest = self._divide(idx)
        if _is_int(chosen) and self._has_split(chosen):
            self._tensors[chosen][rest] = value
        else:
            self._base[idx] = value

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call a torch function with the original tensors instead of their proxies."""
        return func(*args_to_tensor(args), **args_to_tensor(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        # Special methods of the tensor would make copy and pickle treat the proxy as a tensor. The proxy's own
        # attributes get here only before they are set.
        if name.startswith("__") or name in TensorProxy.__slots__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(self._base, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._base) if not name.startswith("__"))})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._base!r}, split_dim={self._split_dim})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._base, self._split_dim)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self._tensors if self._split_dim == 0 else self._base)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        # "Copy only if needed" is False in numpy 1 and None in numpy 2. Numpy 1 treats None as False.
        return np.array(self._base.numpy(), dtype=dtype, copy=copy)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> torch.Tensor:
        wrapped: torch.Tensor = self._base.__array_wrap__(array)
        return wrapped

    # Comparison is elementwise, but a proxy can still be a dictionary key.
    __hash__ = object.__hash__

    __lt__ = __le__ = __eq__ = __ne__ = __gt__ = __ge__ = _Operator(_evaluated_by_tensor)
    __neg__ = __pos__ = __abs__ = __invert__ = _Operator(_evaluated_by_tensor)
    __bool__ = __int__ = __float__ = __complex__ = __index__ = _Operator(_evaluated_by_tensor)
    __len__ = __delitem__ = __contains__ = __reversed__ = _Operator(_evaluated_by_tensor)
    __dlpack__ = __dlpack_device__ = _Operator(_evaluated_by_tensor)
    __add__ = __sub__ = __mul__ = __matmul__ = __truediv__ = __floordiv__ = _Operator(_evaluated_by_tensor)
    __mod__ = __pow__ = __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _Operator(_evaluated_by_tensor)
    __radd__ = __rsub__ = __rmul__ = __rmatmul__ = __rtruediv__ = _Operator(_evaluated_by_tensor)
    __rfloordiv__ = __rmod__ = __rpow__ = __rand__ = __ror__ = _Operator(_evaluated_by_tensor)
    __rxor__ = __rlshift__ = __rrshift__ = _Operator(_evaluated_by_tensor)
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = _Operator(_changing_tensor)
    __imod__ = __ipow__ = __iand__ = __ior__ = __ixor__ = _Operator(_changing_tensor)
    __ilshift__ = __irshift__ = _Operator(_changing_tensor)

    def _has_split(self, number: int) -> bool:
        return -len(self._tensors) <= number < len(self._tensors)

    def _divide(self, idx: Any) -> tuple[Any, tuple[Any, ...]]:
        """Split an index into the item for the split dimension and the rest.

        The item is None if the index has no such item, or if only torch can determine it.
        """
        items = _without_ellipsis(idx if isinstance(idx, tuple) else (idx,), self._base.ndim)
        dim = 0
        for position, item in enumerate(items):
            count = _dims_indexed(item)
            if count is None:
                break
            dim += count
            if dim > self._split_dim:
                return item, items[:position] + items[position + 1 :]
        return None, items


def args_to_tensor(args: Any) -> Any:
    """Convert each TensorProxy in a sequence to torch.Tensor, preserving the sequence structure.

    Nested sequences and dictionaries are converted as well. Everything else is returned unchanged.
    """
    if isinstance(args, TensorProxy):
        return args.to_tensor()
    if isinstance(args, dict):
        converted_dict = copy.copy(args)
        converted_dict.update((key, args_to_tensor(value)) for key, value in args.items())
        return converted_dict
    if isinstance(args, (list, tuple)):
        converted = [args_to_tensor(value) for value in args]
        return type(args)(*converted) if hasattr(args, "_fields") else type(args)(converted)
    return args


def _validated_tensor(tensor: Any) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise ComponentError(
            f"TensorProxy needs a torch.Tensor, got {type(tensor).__name__}. "
            "Pass the tensor itself, for example `TensorProxy(env.body_pos, split_dim=1)`."
        )
    if tensor.ndim == 0:
        raise ComponentError(
            "TensorProxy needs a tensor with at least one dimension, got a tensor with none. "
            "Use the tensor itself, there is nothing to split."
        )
    return tensor


def _validated_dim(split_dim: Any, tensor: torch.Tensor) -> int:
    """The dimension given by `split_dim`, as a non-negative number."""
    if not isinstance(split_dim, int) or isinstance(split_dim, bool):
        raise ComponentError(
            f"TensorProxy needs an int as split_dim, got {type(split_dim).__name__} {split_dim!r}. "
            "Pass the number of the dimension along which to split the tensor."
        )
    if not -tensor.ndim <= split_dim < tensor.ndim:
        raise DimensionError(
            f"TensorProxy needs a split_dim from {-tensor.ndim} to {tensor.ndim - 1} for a tensor of shape "
            f"{tuple(tensor.shape)}, got {split_dim}. Pass one of the dimensions of the tensor."
        )
    return split_dim % tensor.ndim


def _views_along(tensor: torch.Tensor, dim: int) -> tuple[torch.Tensor, ...]:
    # Autograd does not allow writing values that require gradients to views that unbind created, or that were created
    # without gradients. The tensor itself accepts such values, so its views must accept them too.
    with torch.inference_mode(False):
        return tuple(tensor.select(dim, number) for number in range(tensor.shape[dim]))


def _without_ellipsis(items: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Replace an Ellipsis by full slices, if their number can be determined without torch."""
    position = next((position for position, item in enumerate(items) if item is Ellipsis), None)
    if position is None:
        return items
    before, after = items[:position], items[position + 1 :]
    counts = [_dims_indexed(item) for item in before + after]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return items
    return before + (slice(None),) * (ndim - sum(known)) + after


def _dims_indexed(item: Any) -> int | None:
    """The number of dimensions that one item of an index uses; None if only torch can determine it."""
    if item is None or isinstance(item, bool):
        return 0
    if isinstance(item, slice) or _is_int(item) or _is_flat_list(item):
        return 1
    if isinstance(item, torch.Tensor):
        return item.ndim if item.dtype in (torch.bool, torch.uint8) else 1
    if isinstance(item, np.ndarray) and item.ndim == 1:
        return 1
    # With an Ellipsis, torch counts a numpy mask as one dimension, whatever its number of dimensions is.
    return None


def _is_int(item: Any) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _is_full(item: Any) -> bool:
    return isinstance(item, slice) and item.start is item.stop is item.step is None


def _is_flat_list(item: Any) -> bool:
    return isinstance(item, (list, tuple, range)) and all(isinstance(e, (int, np.integer)) for e in item)


def _int_list(item: Any) -> list[int]:
    """The numbers in an index that is a list of integers for one dimension; empty for any other index."""
    if isinstance(item, np.ndarray):
        item = item.tolist() if item.ndim == 1 and item.dtype.kind == "i" else []
    if not _is_flat_list(item) or any(isinstance(e, (bool, np.unsignedinteger)) for e in item):
        return []
    return [int(number) for number in item]
