"""Tensors that represent parts of other tensors."""

from exploy.environment.tensor_proxy import TensorProxy, args_to_tensor

__all__ = ["TensorProxy", "args_to_tensor"]
