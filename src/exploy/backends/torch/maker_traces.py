"""Removes what torch notes about the machine that makes a file: source lines, folders, example values."""

import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch
from torch.export import ExportedProgram

_UNMISTAKABLE = 12  # bytes; longer ones do not occur by chance
_ORIGIN = ("stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack", "from_node", "custom")


def forget_origin(exported: ExportedProgram) -> None:
    """Remove the source lines of all operators, and the guards on example inputs, which are not checked."""
    for module in exported.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                for key in _ORIGIN:
                    node.meta.pop(key, None)
    exported._guards_code = []


def without_folders(library: bytes, more: Iterable[str] = ()) -> bytes:
    """Overwrite the folders of this machine in a compiled library, which has them for the messages of assertions.

    Args:
        library: Its bytes.
        more: More folders, such as the one that it was compiled in.
    """
    folders = {str(Path(torch.__file__).parent.parent), sys.prefix, sys.base_prefix, tempfile.gettempdir(), *more}
    folders |= {str(Path.home()), str(Path.cwd())}
    for folder in sorted((item.encode() for item in folders), key=len, reverse=True):
        if len(folder) >= _UNMISTAKABLE:
            library = library.replace(folder, b"_" * len(folder))
        elif folder != b"/":  # short ones could be weights, so only where they start a text that goes on as a path
            start = re.compile(b"\0" + re.escape(folder) + rb"(?=/[\x20-\x7e]*\0)")
            library = start.sub(b"\0" + b"_" * len(folder), library)
    return library
