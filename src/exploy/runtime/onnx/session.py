"""Opens models in onnxruntime, with clear errors if that fails."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from exploy.contract import METADATA_KEY, Contract
from exploy.errors import ContractError, FileFormatError
from exploy.runtime.file_errors import cause, refused
from exploy.runtime.onnx.graph_checks import DOMAINS_OF_ONNXRUNTIME, require_sound
from exploy.runtime.onnx.outline import Outline

if TYPE_CHECKING:
    import onnxruntime

NUMPY_TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int16)": np.int16, "tensor(int8)": np.int8,
    "tensor(uint64)": np.uint64, "tensor(uint32)": np.uint32, "tensor(uint16)": np.uint16,
    "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_,
}  # fmt: skip
_NO_MESSAGES = 4  # log level that disables all messages; errors are raised
_NO_SPINNING = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0"}


def load_onnxruntime() -> Any:
    """Import and return the onnxruntime package, without its telemetry. Nothing else in the package imports it.

    Raises:
        ContractError: If it is not installed, or cannot be imported.
    """
    allows_telemetry = os.environ.get("EXPLOY_ALLOW_TELEMETRY") == "1"
    if not allows_telemetry:
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # read when onnxruntime is loaded
    try:
        import onnxruntime
    except ImportError as error:
        raise ContractError(
            f"Running an exported file needs onnxruntime, which cannot be imported ({error}). "
            "Install it: pip install onnxruntime"
        ) from None
    if not allows_telemetry and hasattr(onnxruntime, "disable_telemetry_events"):
        onnxruntime.disable_telemetry_events()  # the program may have loaded it before
    return onnxruntime


def open_session(
    model: bytes | Path,
    *,
    optimize: bool = True,
    optimized_path: Path | None = None,
    threads: int = 1,
    spinning: bool = False,
) -> "onnxruntime.InferenceSession":
    """Open a model on the CPU. Failures are raised and never printed.

    Args:
        model: The bytes of a model that was checked (see `graph_checks`), or the path of its file, which is checked.
        optimize: Let onnxruntime optimise the graph.
        optimized_path: Where to write the optimised graph; not written if None.
        threads: Number of threads that compute.
        spinning: Let threads busy-wait for work.

    Raises:
        FileFormatError: If onnxruntime cannot load the model.
    """
    onnxruntime = load_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _NO_MESSAGES
    if not spinning:
        for key, value in _NO_SPINNING.items():
            options.add_session_config_entry(key, value)
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    if optimized_path is not None:
        options.optimized_model_filepath = str(optimized_path)
    source = model if isinstance(model, bytes) else _checked(model)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        name = "the model" if isinstance(model, bytes) else str(model)
        raise FileFormatError(
            f"onnxruntime {onnxruntime.__version__} cannot load {name}: {error}. It may not be an ONNX file, or it "
            "may need a newer onnxruntime. In that case, export with a lower opset_version or ir_version."
        ) from cause(error)


def _checked(path: Path) -> bytes:
    """The bytes of a file that onnxruntime may get."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"Cannot read {path}: {error.strerror or error}.") from None
    with refused(str(path), "read"):
        require_sound(Outline.parse(data, str(path)), str(path), DOMAINS_OF_ONNXRUNTIME)
    return data


def read_contract(session: "onnxruntime.InferenceSession") -> Contract | None:
    """Return the contract of the file, or None if it was not made by exploy.

    Raises:
        ContractError: If the contract is invalid.
    """
    text = session.get_modelmeta().custom_metadata_map.get(METADATA_KEY)
    return None if text is None else Contract.from_json(text)
