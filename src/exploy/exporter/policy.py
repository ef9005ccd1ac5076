"""Export of a policy network alone, for actor-critic modules with a transformer or a recurrent network."""

from exploy.trainers.gbc import export_policy_as_onnx

__all__ = ["export_policy_as_onnx"]
