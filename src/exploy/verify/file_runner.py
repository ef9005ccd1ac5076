"""A file under test, as a function of the step count and named values."""

from collections.abc import Callable, Mapping

import numpy as np
import onnxruntime

from exploy.contract import STEP_COUNT
from exploy.errors import ContractError, FileFormatError, LoweringError
from exploy.runtime.backends import open_paths
from exploy.runtime.model_file import ModelFile
from exploy.runtime.onnx.session import open_session

Values = dict[str, np.ndarray]
RunStep = Callable[[int, Mapping[str, np.ndarray]], Values]


class CannotRunError(Exception):
    """A file cannot be run on some inputs."""


def runner_of(data: bytes) -> RunStep:
    """What runs a file step by step; an ONNX file as it is, with the step count that chooses its path.

    Raises:
        LoweringError: If the file cannot be loaded.
    """
    file = ModelFile.parse(data)
    try:
        return _Session(open_session(data)) if file.contract.backend == "onnx" else _Paths(file)
    except (FileFormatError, ContractError) as error:
        raise LoweringError(f"The exported graph uses types or operators that are not supported: {error}") from error


class _Session:
    """An ONNX file."""

    def __init__(self, session: onnxruntime.InferenceSession):
        self._session = session
        self._inputs = [item.name for item in session.get_inputs()]
        self._outputs = [item.name for item in session.get_outputs()]

    def __call__(self, step_count: int, values: Mapping[str, np.ndarray]) -> Values:
        fed = {name: values[name] for name in self._inputs if name != STEP_COUNT}
        fed[STEP_COUNT] = np.array(step_count, dtype=np.int32)
        try:
            results = self._session.run(None, fed)
        except Exception as error:
            raise CannotRunError(str(error)) from error
        return dict(zip(self._outputs, results, strict=True))


class _Paths:
    """A file of another backend: its two paths, each of which leaves alone what it does not compute."""

    def __init__(self, file: ModelFile):
        self._contract = file.contract
        self._paths = open_paths(file, threads=1, spinning=False, split=True)
        self._shapes = {port.name: (port.fixed_shape(), port.dtype) for port in file.contract.outputs}

    def __call__(self, step_count: int, values: Mapping[str, np.ndarray]) -> Values:
        path = self._paths[1 if step_count % self._contract.decimation else 0]
        fed = {**values, STEP_COUNT: np.array(step_count, dtype=np.int32)}
        reads = {name: np.array(fed[name]) for name in path.inputs}
        writes = {name: np.zeros(*self._shapes[name]) for name in path.outputs}
        try:
            path.run(path.bind(reads, writes))
        except Exception as error:
            raise CannotRunError(str(error)) from error
        kept = {memory.output: values[memory.input] for memory in self._contract.memories}
        return kept | writes
