"""exploy: one self-describing ONNX file from a reinforcement-learning environment and its policy."""

__version__ = "0.1.0"

__all__ = ["__version__"]
