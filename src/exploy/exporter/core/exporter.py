"""Export of an environment with its actor."""

from exploy.driver.environment_export import (
    ExportMode,
    OnnxEnvironmentExporter,
    export_environment_as_onnx,
)

__all__ = ["ExportMode", "OnnxEnvironmentExporter", "export_environment_as_onnx"]
