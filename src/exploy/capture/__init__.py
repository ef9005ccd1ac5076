"""Environment and actor in, `Program` out: a pure graph of torch operators with named ports. Knows no ONNX."""
