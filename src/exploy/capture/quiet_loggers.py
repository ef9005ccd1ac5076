"""Suppresses log messages and warnings of libraries that the export uses internally."""

import contextlib
import logging
import warnings
from collections.abc import Iterator

_NOISY_LOGGERS = ("torch.onnx", "torch.export", "torch._export", "torch._subclasses", "onnxscript", "onnx_ir")


@contextlib.contextmanager
def quiet_loggers() -> Iterator[None]:
    """Suppress log messages below ERROR and all warnings, which users cannot act on. Exceptions are still raised."""
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
