"""Converts a captured Program to C, by way of ONNX, and compiles it."""
