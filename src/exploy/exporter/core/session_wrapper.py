"""ONNX Runtime inference session management."""

from exploy.verify.session_wrapper import SessionWrapper

__all__ = ["SessionWrapper"]
