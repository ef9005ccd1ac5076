"""The JSON Schema of the contract, derived from its dataclasses (see field_schema.py)."""

import inspect
import re
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from exploy.contract.document import Contract
from exploy.contract.field_schema import fields_of, is_part
from exploy.contract.parts import METADATA_KEY

Schema = dict[str, Any]

_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n     .*)*)", re.MULTILINE)
_READERS = "Readers ignore unknown properties and reject other major versions."


def schema() -> Schema:
    """Return the JSON Schema of the document that Contract.to_json() writes, with docstrings as descriptions.

    Raises:
        TypeError: If a field has a type that cannot be expressed in JSON Schema.
    """
    definitions = _Definitions()
    contract = definitions.part(Contract)
    place = f"{contract['description']} Stored in the metadata of the ONNX model under {METADATA_KEY}. {_READERS}"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The contract of an exploy file",
        **contract,
        "description": place,
        "$defs": dict(sorted(definitions.parts.items())),
    }


class _Definitions:
    """The schemas of all parts found so far, by name."""

    def __init__(self) -> None:
        self.parts: dict[str, Schema] = {}
        self._containers: dict[Any, Callable[..., Schema]] = {
            Annotated: self._constrained,
            Union: self._either,
            types.UnionType: self._either,
            tuple: self._tuple,
            list: self._list,
            Mapping: self._mapping,
        }

    def part(self, kind: type) -> Schema:
        """Return the schema of a dataclass, as an object."""
        text, descriptions = _described(kind)
        fields = fields_of(kind)
        properties = {item.name: {"description": descriptions[item.name]} | self._form(item.form) for item in fields}
        required = [item.name for item in fields if item.stored]
        found: Schema = {"description": text, "type": "object"} | ({"required": required} if required else {})
        return found | {"properties": properties}

    def _form(self, form: Any) -> Schema:
        if form is Any:
            return {}
        if form in _PLAIN:
            return {"type": _PLAIN[form]}
        if is_part(form):
            return self._reference(form)
        container = self._containers.get(get_origin(form))
        if container is None:
            raise TypeError(f"Fields of type {form} cannot be expressed in JSON Schema.")
        return container(*get_args(form))

    def _reference(self, kind: type) -> Schema:
        """Refer to a part by the last word of its class name: GoldenTrace becomes `trace`."""
        name = re.findall("[A-Z][a-z]*", kind.__name__)[-1].lower()
        if name not in self.parts:
            self.parts[name] = self.part(kind)
        return {"$ref": f"#/$defs/{name}"}

    def _constrained(self, form: Any, *constraints: Any) -> Schema:
        found = self._form(form)
        for constraint in constraints:
            found = found | dict(constraint.keywords)
        return found

    def _either(self, *forms: Any) -> Schema:
        found = [self._form(form) for form in forms if form is not type(None)]
        if type(None) not in forms:
            return {"anyOf": found}
        if len(found) == 1 and "type" in found[0] and "enum" not in found[0]:
            return found[0] | {"type": [found[0]["type"], "null"]}
        return {"anyOf": [*found, {"type": "null"}]}

    def _tuple(self, *forms: Any) -> Schema:
        if forms[-1] is Ellipsis:
            return self._list(forms[0])
        items = [self._form(form) for form in forms]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _list(self, form: Any) -> Schema:
        return {"type": "array", "items": self._form(form)}

    def _mapping(self, key: Any, form: Any) -> Schema:
        items = self._form(form)
        return {"type": "object"} | ({"additionalProperties": items} if items else {})


def _described(kind: type) -> tuple[str, dict[str, str]]:
    """Return the description of a class and of each field, from its docstring.

    Raises:
        TypeError: If there is no docstring, as with `python -OO`.
    """
    text = inspect.getdoc(kind)
    if not text:
        raise TypeError(f"{kind.__name__} has no docstring.")
    about, _, arguments = text.partition("\nArgs:\n")
    return _one_line(about), {name: _one_line(found) for name, found in _ARGUMENT.findall(arguments)}


def _one_line(text: str) -> str:
    return " ".join(text.split())
