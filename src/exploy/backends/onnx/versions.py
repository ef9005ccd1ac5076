"""Chooses the opset and IR version of a file."""

from exploy.errors import ContractError, LoweringError
from exploy.runtime.onnx.releases import support_of

OPSET_VERSION = 20
IR_VERSION = 11


def versions_for(release: str | None, opset_version: int, ir_version: int) -> tuple[int, int]:
    """The opset and IR version for an onnxruntime release. The defaults are lowered to what it supports.

    Raises:
        LoweringError: If a version is invalid, or the release is unknown or does not support a requested version.
    """
    for name, version in (("opset_version", opset_version), ("ir_version", ir_version)):
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise LoweringError(f"{name} must be an integer such as {OPSET_VERSION}, got {version!r}.")
    if release is None:
        return opset_version, ir_version
    try:
        support = support_of(release)
    except ContractError as error:
        raise LoweringError(f"target_onnxruntime: {error}") from None
    asked_for = [
        f"{name}={version} (it supports at most {newest})"
        for name, version, default, newest in (
            ("opset_version", opset_version, OPSET_VERSION, support.opset),
            ("ir_version", ir_version, IR_VERSION, support.ir_version),
        )
        if version > newest and version != default
    ]
    if asked_for:
        raise LoweringError(
            f"onnxruntime {release} does not support {' and '.join(asked_for)}. Leave it out, or choose a newer target."
        )
    return min(opset_version, support.opset), min(ir_version, support.ir_version)
