"""The documented module paths can be imported, and re-export the objects of the implementation."""

import importlib

import pytest

DOCUMENTED = {
    "exploy.exporter.core.actor": ["ExportableActor", "add_actor_memory", "make_exportable_actor"],
    "exploy.exporter.core.components": ["Connection", "Group", "Input", "Memory", "Output"],
    "exploy.exporter.core.context_manager": ["ContextManager", "Group", "Input", "Memory", "Output"],
    "exploy.exporter.core.evaluator": ["evaluate"],
    "exploy.exporter.core.exportable_environment": ["ExportableEnvironment"],
    "exploy.exporter.core.exporter": [
        "ExportMode",
        "OnnxEnvironmentExporter",
        "export_environment_as_onnx",
    ],
    "exploy.exporter.core.session_wrapper": ["SessionWrapper"],
    "exploy.exporter.core.tensor_proxy": ["TensorProxy", "args_to_tensor"],
    "exploy.exporter.policy": ["export_policy_as_onnx"],
    "exploy.exporter.frameworks.cleanrl": ["actor_from_agent", "actor_from_checkpoint", "export_policy"],
    "exploy.exporter.frameworks.gbc": ["actor_from_checkpoint", "actor_from_model", "export_policy"],
    "exploy.exporter.frameworks.rl_games": [
        "actor_from_agent",
        "actor_from_checkpoint",
        "actor_from_player",
        "export_policy",
    ],
    "exploy.exporter.frameworks.rsl_rl": [
        "actor_from_checkpoint",
        "actor_from_model",
        "actor_from_runner",
        "export_policy",
    ],
    "exploy.exporter.frameworks.sb3": ["actor_from_checkpoint", "actor_from_model", "export_policy"],
    "exploy.exporter.frameworks.skrl": [
        "actor_from_agent",
        "actor_from_checkpoint",
        "actor_from_model",
        "actor_from_runner",
        "export_policy",
    ],
    "exploy.exporter.frameworks.torchrl": ["TorchRlEnvironment", "actor_from_policy", "export_policy"],
    "exploy.exporter.frameworks.torchrl.environment": ["TorchRlEnvironment"],
}


@pytest.mark.parametrize("module", DOCUMENTED)
def test_documented_names_are_there(module: str) -> None:
    found = importlib.import_module(module)
    for name in DOCUMENTED[module]:
        assert not getattr(found, name).__module__.startswith("exploy.exporter")
        assert name in found.__all__
