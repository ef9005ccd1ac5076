"""Writes the C file with what a program says about itself."""

import dataclasses

from exploy.contract import Contract

_PER_LINE = 100
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "?": "\\?"})  # two question marks could start a trigraph


def contract_text(name: str, contract: Contract) -> str:
    """The text of `NAME_contract.c`.

    Args:
        name: The name of the program.
        contract: What the archive says about itself. Its trace is left out: `NAME_selftest.c` has it.
    """
    document = dataclasses.replace(contract, trace=None).to_json()
    lines = [document[start : start + _PER_LINE] for start in range(0, len(document), _PER_LINE)]
    literals = "\n".join(f'  "{line.translate(_ESCAPES)}"' for line in lines)
    return f"""\
/* {name}_contract.c: what {name} says about itself, as JSON. Made by exploy; see {name}.h. */
#include "{name}.h"

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverlength-strings"
#endif

static const char document[] =
{literals};

const char *{name}_contract(void)
{{
  return document;
}}

const char *{name}_digest(void)
{{
  return {name.upper()}_DIGEST;
}}
"""
