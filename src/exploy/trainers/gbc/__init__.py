"""GBC policies with their normalisers: transformers with or without reference observations, LSTM and GRU."""

from exploy.trainers.gbc.export import export_policy, export_policy_as_onnx
from exploy.trainers.gbc.policy import GbcPolicy, actor_from_checkpoint, actor_from_model

__all__ = ["GbcPolicy", "actor_from_checkpoint", "actor_from_model", "export_policy", "export_policy_as_onnx"]
