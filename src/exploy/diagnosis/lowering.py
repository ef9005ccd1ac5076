"""Checks that a captured environment can be written as a file: what an export does, without the writing."""

import warnings
from collections.abc import Iterator

import torch
from torch import fx

from exploy.backends.registry import make_backend
from exploy.capture.program import Program
from exploy.capture.recording import WHERE
from exploy.description.environment_contract import build_contract
from exploy.description.metadata import build_metadata
from exploy.diagnosis.examination import Examination
from exploy.diagnosis.failure import failure
from exploy.diagnosis.finding import Finding, FindingKind, Severity
from exploy.environment.validation import validated_decimation
from exploy.errors import LoweringError, VerificationError, WeakerCheckWarning
from exploy.live.location import UNKNOWN
from exploy.verify.export_checks import verify_against_program
from exploy.verify.stepped import stepped_file

_TRAINING = 5  # position of the flag among the arguments of batch_norm


def lowering_findings(examination: Examination) -> list[Finding]:
    """Lower the program to ONNX, and compare the file with the program if there are no errors so far.

    Raises:
        Exception: Whatever the description of the environment raises.
    """
    program, env = examination.captured, examination.env
    if program is None or any(item.kind in _DECIDED for item in examination.findings):
        return []
    normalized = list(_normalized_by_batch(program))
    if normalized:
        return normalized
    decimation = validated_decimation(env)
    try:
        artifact = make_backend("onnx").lower(program, decimation)
        if any(item.severity is Severity.ERROR for item in examination.findings):
            return []
        contract = build_contract(env, program, artifact, decimation, "onnx")
        file = stepped_file(artifact.file(contract, build_metadata(env, contract, None)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakerCheckWarning)
            verify_against_program(program, file, decimation)
    except LoweringError as error:
        return [failure(FindingKind.CANNOT_LOWER, "env", error)]
    except VerificationError as error:
        what, _, reasons = str(error).partition(" Nothing was written. ")
        advice = f"# {' '.join(reasons.split())}" if reasons else "# replace the operator that computes it"
        return [Finding.of(FindingKind.CANNOT_LOWER, "env", what.removesuffix("."), "", advice)]
    return []


_DECIDED = (FindingKind.WRONG_NAMES, FindingKind.WRONG_DECIMATION, FindingKind.CAPTURE_FAILED)


def _normalized_by_batch(program: Program) -> Iterator[Finding]:
    """Batch normalizations in training mode, which have no ONNX form."""
    for node in program.module.graph.nodes:
        if node.target is torch.ops.aten.batch_norm.default and len(node.args) > _TRAINING and node.args[_TRAINING]:
            tensor = _module_of(program, node)
            what = "a batch normalization runs in training mode, which a file cannot do"
            advice = f"# call {tensor}.eval() in prepare_export(), or register the module with add_module()"
            where = node.meta.get(WHERE, UNKNOWN)
            yield Finding.of(FindingKind.CANNOT_LOWER, tensor, what, "" if where == UNKNOWN else where, advice)


def _module_of(program: Program, node: fx.Node) -> str:
    """The path of the module whose running mean a batch normalization updates."""
    mean = node.args[3]
    names = [
        item.name
        for item in program.frozen_and_weights
        if isinstance(mean, fx.Node) and str(mean.target) in item.buffers and item.name.endswith(".running_mean")
    ]
    return names[0].removesuffix(".running_mean") if names else "the module"
