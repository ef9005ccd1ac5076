"""Prints a page of the documentation: what a file computes for the functions of a simulator's library.

In the venv of the simulator: python -m tools.library_functions mjlab > docs/functions_of_mjlab.md
"""

import contextlib
import importlib
import sys
import warnings

from tests.support.function_pages import page

_TITLES = {"mjlab": "Functions of mjlab", "isaaclab": "Functions of Isaac Lab"}
_INTRODUCTION = """Each row is a function of {names}, unchanged. It is called with random tensors:
those of its arguments, or those that it reads from an environment. They are the Inputs of a file, and what the function
returns are its Outputs. At five random values of the Inputs, the file must give what the function gives. Options that
the signature lists are all tried. {environments}

`make test-{library}` makes the same calls, and `python -m tools.library_functions {library}` prints this page.
"""
_NAMES = {
    "mjlab": "mjlab 1.6",
    "isaaclab": "Isaac Lab 3.0, or of the mathematics of 2.3",
}
_ENVIRONMENTS = {
    "mjlab": "The environments are real tasks, on the CPU.",
    "isaaclab": (
        "Terms that every robot has are called in a real task,\n"
        "ANYmal D on rough terrain on Newton and the CPU. For the others, the robots and objects lie on a server; they "
        "read an\nenvironment that is made of the library's own arrays."
    ),
}


def main() -> None:
    """Run all functions of a library and print the page."""
    warnings.simplefilter("ignore")
    library = sys.argv[1]
    with contextlib.redirect_stdout(sys.stderr):
        found = importlib.import_module(f"tests.support.{library}_functions")
        introduction = _INTRODUCTION.format(library=library, names=_NAMES[library], environments=_ENVIRONMENTS[library])
        text = page(_TITLES[library], introduction, found.functions(), found.calls)
    print(text, end="")


if __name__ == "__main__":
    main()
