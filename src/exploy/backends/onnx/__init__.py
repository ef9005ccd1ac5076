"""A captured Program as one ONNX file with both rates."""
