"""Export of a policy network without environment, for transformer and recurrent actor-critic modules."""

from exploy.trainers.gbc import export_policy_as_onnx

__all__ = ["export_policy_as_onnx"]
