"""Prints the JSON Schema of the contract, which is published with the documentation.

python -m tools.contract_schema > docs/contract.schema.json
"""

import json

from exploy.contract.schema import schema


def text() -> str:
    """The content of the published file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
