"""Runs ONNX files: reads their bytes, and opens onnxruntime sessions."""
