"""ONNX Runtime inference sessions."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from exploy.contract import STEP_COUNT
from exploy.errors import FileFormatError, RuntimeInputError
from exploy.runtime.model_file import ModelFile
from exploy.runtime.onnx.session import NUMPY_TYPES, open_session, read_contract
from exploy.runtime.signatures.public_keys import TrustedKeys
from exploy.runtime.signatures.trust import Trust

if TYPE_CHECKING:
    import onnxruntime

    from exploy.contract import Contract
    from exploy.environment.actor import ExportableActor


class SessionWrapper:
    """An ONNX inference session, together with the actor that the file was made from.

    Args:
        onnx_folder: The folder that contains the file.
        onnx_file_name: The name of the file.
        actor: The original actor, for comparison; not needed for inference.
        optimize: Let onnxruntime optimise the graph, and write the result to `debug/…_optimized.onnx`
            if that folder is writable. If False, the graph is not optimised and nothing is written.
        trusted_keys: Public keys, or paths of them, of which one must have signed the file; see `Controller.load()`.

    Raises:
        SignatureError: If the file is not signed by a trusted key.
        FileFormatError: If the file does not exist or onnxruntime cannot load it.
    """

    def __init__(
        self,
        onnx_folder: Path | str,
        onnx_file_name: str,
        actor: "ExportableActor | None" = None,
        optimize: bool = True,
        *,
        trusted_keys: TrustedKeys | None = None,
    ):
        self._path = Path(onnx_folder) / onnx_file_name
        if not self._path.is_file() and not onnx_file_name.endswith(".onnx"):
            self._path = self._path.with_name(f"{onnx_file_name}.onnx")
        if not self._path.is_file():
            raise FileFormatError(f"File not found: {self._path}. Export it first, or check the folder and file name.")
        model = self._path if not Trust.of(trusted_keys).is_needed else _read_signed(self._path, trusted_keys)
        self._session = _open_optimized(model, self._path) if optimize else open_session(model, optimize=False)
        self._actor = actor
        self._contract = read_contract(self._session)
        self._inputs = {item.name: item for item in self._session.get_inputs()}
        self._outputs = {item.name: item for item in self._session.get_outputs()}
        self._dtypes = {name: np.dtype(NUMPY_TYPES.get(item.type, np.float32)) for name, item in self._inputs.items()}
        self._results: dict[str, np.ndarray] = {}
        self.reset()

    @property
    def onnx_file_path(self) -> Path:
        """Path of the file that this session runs."""
        return self._path

    @property
    def label(self) -> str:
        """Name of the file for messages."""
        return str(self._path)

    @property
    def contract(self) -> "Contract | None":
        """The contract of the file; None if it was not made by exploy."""
        return self._contract

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs of the file."""
        return list(self._inputs)

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs of the file."""
        return list(self._outputs)

    def __call__(self, /, **kwargs: Any) -> list[np.ndarray]:
        """Run inference.

        Args:
            **kwargs: Values by input name, including `ctx.step_count`. Registered inputs that are not in the file,
                because no output depends on them, are ignored.

        Returns:
            The values of all outputs, in the order of the file.

        Raises:
            RuntimeInputError: If an input is missing or unknown, or has the wrong shape or type.
        """
        ignored = set(self._contract.unused_inputs) if self._contract else set()
        unknown = [name for name in kwargs if name not in self._inputs and name not in ignored]
        missing = [name for name in self._inputs if name not in kwargs]
        if unknown or missing:
            raise RuntimeInputError(
                f"{self._path.name} takes {', '.join(self._inputs)}."
                + (f" Missing: {', '.join(missing)}." if missing else "")
                + (f" Unknown: {', '.join(unknown)}." if unknown else "")
            )
        values = {name: self._validated(name, kwargs[name]) for name in self._inputs}
        results = self._session.run(None, values)
        self._results = dict(zip(self._outputs, results, strict=True))
        return list(results)

    def run(self, step_count: int, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run inference with a step count and values by name. Values that are not inputs of the file are ignored.

        Returns:
            The values of all outputs, by name.

        Raises:
            RuntimeInputError: If an input is missing, or has the wrong shape or type.
        """
        taken = {name: value for name, value in values.items() if name in self._inputs}
        self(**taken, **({STEP_COUNT: np.array(step_count, dtype=np.int32)} if STEP_COUNT in self._inputs else {}))
        return dict(self._results)

    def get_actor(self) -> "ExportableActor | None":
        """The original actor, or None if none was given."""
        return self._actor

    def get_output_value(self, output_name: str) -> np.ndarray:
        """The value of one output of the last run; zeros before the first run and after a reset.

        Raises:
            KeyError: If the file has no such output.
        """
        if output_name not in self._results:
            raise KeyError(f"{self._path.name} has no output {output_name!r}; it has {', '.join(self._results)}.")
        return self._results[output_name]

    def reset(self) -> None:
        """Set all outputs to zero until the next run. Arrays that were returned earlier are not changed."""
        self._results = {
            name: np.zeros([_size(size) for size in item.shape], dtype=NUMPY_TYPES.get(item.type, np.float32))
            for name, item in self._outputs.items()
        }

    def _validated(self, name: str, value: Any) -> np.ndarray:
        expected = self._inputs[name]
        dtype = self._dtypes[name]
        try:
            array: np.ndarray = value.detach().cpu().numpy() if hasattr(value, "detach") else _array(value, dtype)
        except (TypeError, ValueError, OverflowError) as error:
            wanted = f"shape {tuple(expected.shape)} and type {dtype}"
            raise RuntimeInputError(f"Input {name!r} must be an array of {wanted}: {error}.") from error
        if not _fits(array.shape, expected.shape) or array.dtype != dtype:
            wanted = f"shape {tuple(expected.shape)} and type {dtype}"
            raise RuntimeInputError(
                f"Input {name!r} must have {wanted}, got shape {array.shape} and type {array.dtype}."
            )
        return array


def _array(value: Any, dtype: np.dtype) -> np.ndarray:
    """Convert a value to an array. Python numbers are converted to `dtype`."""
    return np.array(value, dtype) if isinstance(value, bool | int | float) else np.asarray(value)


def _fits(shape: tuple[int, ...], expected: list[Any]) -> bool:
    """Whether a shape is the expected one. An expected size that is a string matches any size."""
    if len(shape) != len(expected):
        return False
    return all(size == wanted or isinstance(wanted, str) for size, wanted in zip(shape, expected, strict=True))


def _size(size: Any) -> int:
    return size if isinstance(size, int) else 1


def _read_signed(path: Path, trusted_keys: TrustedKeys | None) -> bytes:
    """The bytes of a file whose signature was checked: these are run, whatever is in the file by then."""
    return ModelFile.load(path, trusted_keys=trusted_keys).data


def _open_optimized(model: bytes | Path, path: Path) -> "onnxruntime.InferenceSession":
    """Open a file with an optimised graph, and write that graph to `debug/` if it is writable."""
    folder = path.parent / "debug"
    is_new = not folder.exists()
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
    try:
        return open_session(model, optimize=True, optimized_path=_optimized_path(path, folder))
    except FileFormatError:
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _optimized_path(path: Path, folder: Path) -> Path | None:
    if not folder.is_dir():
        return None
    target = folder / f"{path.name.removesuffix('.onnx')}_optimized.onnx"
    writable = os.access(target if target.exists() else folder, os.W_OK)
    return target if writable and not target.is_dir() else None
