"""Runs exported files with numpy and onnxruntime alone."""
