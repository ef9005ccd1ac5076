"""Which opset and IR version a file has."""

from exploy.errors import ContractError, LoweringError
from exploy.runtime.onnx.releases import support_of

OPSET_VERSION = 20
IR_VERSION = 11


def versions_for(release: str | None, opset_version: int, ir_version: int) -> tuple[int, int]:
    """Opset and IR version for a release of onnxruntime: the defaults lowered to what it reads.

    Raises:
        LoweringError: If the release is unknown, or cannot read a version that was asked for.
    """
    for name, version in (("opset_version", opset_version), ("ir_version", ir_version)):
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise LoweringError(f"{name} must be a whole number such as {OPSET_VERSION}, got {version!r}.")
    if release is None:
        return opset_version, ir_version
    try:
        support = support_of(release)
    except ContractError as error:
        raise LoweringError(f"target_onnxruntime: {error}") from None
    asked_for = [
        f"{name}={version} (it reads {newest} at most)"
        for name, version, default, newest in (
            ("opset_version", opset_version, OPSET_VERSION, support.opset),
            ("ir_version", ir_version, IR_VERSION, support.ir_version),
        )
        if version > newest and version != default
    ]
    if asked_for:
        raise LoweringError(
            f"onnxruntime {release} cannot read {' and '.join(asked_for)}. Leave that out, or choose a newer target."
        )
    return min(opset_version, support.opset), min(ir_version, support.ir_version)
