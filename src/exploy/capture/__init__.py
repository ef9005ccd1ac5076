"""Converts an environment and its actor to a `Program`: a pure graph of torch operators with named ports. No ONNX."""
