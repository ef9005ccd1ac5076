"""Programs of C as tests run them: emitted, compiled with every warning an error, and called from Python."""

import ctypes
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from exploy.codegen.header import header_text
from exploy.codegen.number_tables import definition
from exploy.codegen.program import Program, write_program
from exploy.codegen.source import source_text
from exploy.contract import Contract, Port
from exploy.runtime.c.steps import CStep

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Wshadow", "-pedantic", "-Werror")
FLAGS = ("-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
OPSET = 20

Arrays = Mapping[str, np.ndarray]


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Arrays,
    outputs: Sequence[str],
    constants: Arrays | None = None,
    opset: int = OPSET,
) -> onnx.ModelProto:
    """A model of a few operators, with the types and shapes of arrays as inputs; those of outputs are inferred."""
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs]
    stored = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "operators", given, results, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def run_onnxruntime(model: onnx.ModelProto, inputs: Arrays) -> dict[str, np.ndarray]:
    """What onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def run_c(
    model: onnx.ModelProto, inputs: Arrays, flags: Sequence[str] = FLAGS, expected: Arrays | None = None
) -> dict[str, np.ndarray]:
    """What the C code of a model computes.

    Args:
        model: The model.
        inputs: What it is given.
        flags: Of the compiler.
        expected: Arrays like the results, for models that onnxruntime cannot run.

    Raises:
        ContractError: If it ends with a status other than OK.
    """
    program = program_of(model, inputs, expected)
    outputs = {item.name: np.zeros(item.shape, item.dtype) for item in program.steps["policy_step"].outputs}
    with tempfile.TemporaryDirectory() as folder:
        step = load_step(compile_program(program, Path(folder), flags), program)
        step.run(step.bind({name: np.ascontiguousarray(array) for name, array in inputs.items()}, outputs))
    return outputs


def program_of(model: onnx.ModelProto, inputs: Arrays, expected: Arrays | None = None) -> Program:
    """The program of a model of a few operators, whose results are as inferred, or like given arrays."""
    inferred = [_port_of(item) for item in model.graph.output]
    outputs = tuple(port for port in inferred if port is not None)
    if expected is not None:
        outputs = _ports(expected)
    elif len(outputs) < len(inferred):
        outputs = _ports(run_onnxruntime(model, inputs))
    contract = Contract(decimation=1, inputs=_ports(inputs), outputs=outputs, memories=())
    return write_program(model.SerializeToString(), contract, "tried")


def compile_program(program: Program, folder: Path, flags: Sequence[str] = FLAGS, compiler: str = "gcc") -> Path:
    """Write the sources of a program into a folder, and compile them to a library."""
    name = program.name
    (folder / f"{name}.h").write_text(header_text(program, "0" * 64))
    large = [definition(table) for table in program.tables if not table.is_small]
    includes = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n"
    (folder / f"{name}_weights.c").write_text(includes + "\n".join(large))
    (folder / f"{name}.c").write_text(source_text(program))
    library = folder / f"lib{name}.so"
    sources = [f"{name}.c", f"{name}_weights.c"]
    command = [compiler, *flags, *WARNINGS, "-fPIC", "-shared", "-o", library.name, *sources, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    return library


def load_step(library: Path, program: Program, kind: str = "policy_step") -> CStep:
    """A step of a compiled program."""
    loaded = ctypes.CDLL(str(library))
    function = getattr(loaded, f"{program.name}_{kind}_at")
    function.restype = ctypes.c_int32
    size = getattr(loaded, f"{program.name}_scratch_bytes")
    size.restype = ctypes.c_size_t
    step = program.steps[kind]
    return CStep(function, tuple(item.name for item in step.inputs), tuple(item.name for item in step.outputs), size())


def _ports(arrays: Arrays) -> tuple[Port, ...]:
    return tuple(Port(name, array.dtype.name, array.shape) for name, array in arrays.items())


def _port_of(value: onnx.ValueInfoProto) -> Port | None:
    """The port of an output, if its shape was inferred."""
    kind = value.type.tensor_type
    if not kind.HasField("shape") or any(not size.HasField("dim_value") for size in kind.shape.dim):
        return None
    shape = tuple(size.dim_value for size in kind.shape.dim)
    return Port(value.name, helper.tensor_dtype_to_np_dtype(kind.elem_type).name, shape)
