"""Archives: files of backends other than ONNX, with a contract and a digest."""
