"""A captured Program as one ONNX file with both paths."""
