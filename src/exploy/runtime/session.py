"""Opens an exported file in onnxruntime, and reads what it says about itself."""

from pathlib import Path

import onnxruntime

from exploy.contract import METADATA_KEY, Contract
from exploy.errors import FileFormatError

_ERRORS_ONLY = 3


def open_session(
    model: bytes | Path, *, optimize: bool = True, optimized_path: Path | None = None
) -> onnxruntime.InferenceSession:
    """Open a model on one CPU thread, without messages below errors.

    Args:
        model: The bytes of a model, or the path of its file.
        optimize: Let onnxruntime optimise the graph.
        optimized_path: Where to write the optimised graph; nowhere if None.

    Raises:
        FileFormatError: If onnxruntime cannot load it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    if optimized_path is not None:
        options.optimized_model_filepath = str(optimized_path)
    source = model if isinstance(model, bytes) else str(model)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        name = "the model" if isinstance(model, bytes) else str(model)
        raise FileFormatError(
            f"onnxruntime {onnxruntime.__version__} cannot load {name}: {error}. It may be no ONNX file, or need "
            "a newer onnxruntime; export with a lower opset_version or ir_version in that case."
        ) from error


def read_contract(session: onnxruntime.InferenceSession) -> Contract | None:
    """What the file says about itself, or None where it was not made by exploy.

    Raises:
        FileFormatError: If the contract cannot be understood.
    """
    text = session.get_modelmeta().custom_metadata_map.get(METADATA_KEY)
    return None if text is None else Contract.from_json(text)
