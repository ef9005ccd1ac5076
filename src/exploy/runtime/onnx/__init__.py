"""Runs ONNX files: what their bytes say, and sessions of onnxruntime."""
