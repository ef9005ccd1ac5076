"""Converts a captured Program to one ONNX file with both rates."""
