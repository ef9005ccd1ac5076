"""Keeps libraries quiet while they do what the user did not ask them to do."""

import contextlib
import logging
import warnings
from collections.abc import Iterator

_NOISY_LOGGERS = ("torch.onnx", "torch.export", "torch._export", "torch._subclasses", "onnxscript", "onnx_ir")


@contextlib.contextmanager
def quiet_loggers() -> Iterator[None]:
    """Silence messages of the libraries below that a user can do nothing about; errors still raise."""
    loggers = [logging.getLogger(name) for name in _NOISY_LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
