"""The ONNX versions that each onnxruntime release supports, found by loading models of every version in each."""

from dataclasses import dataclass

from exploy.errors import ContractError


@dataclass(frozen=True)
class Support:
    """The newest opset and IR version that a release supports."""

    opset: int
    ir_version: int


_SUPPORT = {
    (1, 15): Support(opset=19, ir_version=9),
    (1, 16): Support(opset=19, ir_version=9),
    (1, 17): Support(opset=20, ir_version=9),
    (1, 18): Support(opset=21, ir_version=10),
    (1, 19): Support(opset=21, ir_version=10),
    (1, 20): Support(opset=21, ir_version=10),
    (1, 21): Support(opset=22, ir_version=10),
    (1, 22): Support(opset=22, ir_version=10),
    (1, 23): Support(opset=23, ir_version=11),
    (1, 24): Support(opset=25, ir_version=13),
    (1, 25): Support(opset=26, ir_version=13),
}
OLDEST, NEWEST = (".".join(map(str, choose(_SUPPORT))) for choose in (min, max))


def support_of(version: str) -> Support:
    """Return what a release supports. Releases newer than the table are treated like its newest entry.

    Raises:
        ContractError: If the string is not a version, or the release is older than the table.
    """
    try:
        major, minor = (int(part) for part in version.split(".")[:2])
    except (ValueError, AttributeError):
        raise ContractError(
            f"{version!r} is not a version of onnxruntime. Give one such as '1.20' or '{NEWEST}'."
        ) from None
    if (major, minor) < min(_SUPPORT):
        raise ContractError(f"onnxruntime {version} is too old for exported files. Install {OLDEST} or newer.")
    return _SUPPORT.get((major, minor), _SUPPORT[max(_SUPPORT)])


def require_readable(opset: int, ir_version: int, version: str) -> None:
    """Check that a release can read a file.

    Raises:
        ContractError: If it cannot. The message has the versions of the file and those that the release supports.
    """
    support = support_of(version)
    is_newer = (*map(int, version.split(".")[:2]),) > max(_SUPPORT)
    if not is_newer and (opset > support.opset or ir_version > support.ir_version):
        release = ".".join(version.split(".")[:2])
        raise ContractError(
            f"The file has opset {opset} and IR version {ir_version}; onnxruntime {version} supports at most "
            f"opset {support.opset} and IR version {support.ir_version}. Update onnxruntime, or export with "
            f'target_onnxruntime="{release}".'
        )
