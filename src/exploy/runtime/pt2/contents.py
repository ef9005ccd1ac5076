"""Refuses archives that would make torch run code: pickles, script objects, expressions, operators that are no maths.

torch's loader trusts what it reads. It unpickles, evaluates expressions, imports modules by name, looks up operators as
attributes of the torch package, and writes names into the code that it generates. So a file may have only what exports
write.
"""

import io
import re
from typing import Any

from exploy.contract.json_text import parse_json
from exploy.contract.limits import MAX_CONTRACT_BYTES
from exploy.errors import ContractError
from exploy.runtime.archives.layout import Member, members_of

_STEP = "(policy_step|sub_step)"
_PROGRAM = re.compile(f"models/{_STEP}[.]json")
_PAYLOADS = re.compile(f"data/(weights/{_STEP}_weights|constants/{_STEP}_constants)_config[.]json")
_SAMPLE_INPUTS = re.compile(f"data/sample_inputs/{_STEP}[.]pt")
_PLAIN = re.compile(
    r"data/weights/weight_\d+|data/constants/tensor_\d+|extra/exploy[.](contract|signatures)|archive_format|"
    r"archive_version|byteorder|[.]data/(version|serialization_id)"
)
_COMPILED = re.compile(rf"data/aotinductor/{_STEP}/[\w.]+")

_OPERATOR = re.compile(
    r"torch[.]ops[.]aten[.](?!(from_file|save|load|warn|_print)[.])\w+[.]\w+|torch[.]ops[.]prims[.]\w+[.]\w+|"
    r"torch[.]ops[.]higher_order[.](cond|while_loop|scan|associative_scan|map_impl|wrap_with_set_grad_enabled|"
    r"wrap_with_autocast)|"
    r"torch[.](_)?sym_\w+|math[.]\w+|"
    r"_operator[.](add|sub|mul|floordiv|truediv|mod|neg|pos|pow|abs|eq|ne|lt|le|gt|ge|and_|or_|xor|not_|getitem)"
)
_EXPRESSION = re.compile(
    r"(?:[su]\d++|Symbol\('[su]\d++'(?:, (?:positive|integer)=True)*+\)|Integer|Rational|Add|Mul|Max|Min|FloorDiv|"
    r"CeilDiv|Mod|PythonMod|ModularIndexing|Equality|Unequality|(?:Strict)?(?:Less|Greater)Than|\d++|[-+*/(), <>=])*+"
)
_LONG_NUMBER = re.compile(r"\d{19}")
_NAME = re.compile(r"[\w.:+\- ]*", re.ASCII)
_OPTION = re.compile(r"""[^\x00-\x1f\x7f-\xa0\\"']*""")  # of an operator, such as the equation of einsum
_TREES = ("builtins.tuple", "builtins.list", "builtins.dict")
_MAX_EXPRESSION = 1000


def require_harmless(data: bytes, is_compiled: bool) -> None:
    """Check the members of an archive before torch gets it.

    Args:
        data: The bytes of the archive, whose digest is right.
        is_compiled: Whether the archive may have compiled libraries. They are code: see `find_code()`.

    Raises:
        ContractError: If a member could make torch run code, or is none that exports write.
    """
    members = members_of(data)
    folder = members[0].name.split("/")[0]
    for member in members:
        top, _, name = member.name.partition("/")
        if top != folder:
            raise _refusal(member, "is not where exports put it")
        if member.is_packed:
            raise _refusal(member, "is packed, which exports do not do")
        if _PROGRAM.fullmatch(name):
            _require_plain_program(_document(data, member), member)
        elif _PAYLOADS.fullmatch(name):
            _require_plain_tensors(_document(data, member), member)
        elif _SAMPLE_INPUTS.fullmatch(name):
            _require_tensors_only(data[member.start : member.stop], member)
        elif not _PLAIN.fullmatch(name) and not (is_compiled and _COMPILED.fullmatch(name)):
            raise _refusal(member, "is none that exports write")


def _refusal(member: Member, reason: str) -> ContractError:
    return ContractError(
        f"The member {member.name!r} of the archive {reason}. It could run code, so the file is refused. Export it "
        "again with exploy."
    )


def _document(data: bytes, member: Member) -> Any:
    try:
        return parse_json(data[member.start : member.stop], MAX_CONTRACT_BYTES)
    except ValueError as error:
        raise _refusal(member, f"is not plain JSON ({error})") from None


def _require_plain_tensors(document: Any, member: Member) -> None:
    """Check the list of weights or constants: raw bytes of tensors, and no pickles or script objects."""
    for payload in document["config"].values():
        if payload.get("use_pickle") is not False or payload.get("tensor_meta") is None:
            raise _refusal(member, "asks to unpickle a tensor (use_pickle)")
        if not re.fullmatch(r"(weight|tensor)_\d+", payload["path_name"]):
            raise _refusal(member, "asks for something other than a tensor")
    _require_plain_program(document, member)


def _require_tensors_only(data: bytes, member: Member) -> None:
    """Check a pickle by loading it as torch does for weights only. Exports write none."""
    if not data:
        return
    import importlib

    torch = importlib.import_module("torch")
    try:
        torch.load(io.BytesIO(data), weights_only=True)
    except Exception as error:
        raise _refusal(member, f"is a pickle of more than tensors ({type(error).__name__})") from None


def _require_plain_program(document: Any, member: Member) -> None:
    """Check every text of a program, wherever it is."""
    pending = [("", document)]
    while pending:
        key, value = pending.pop()
        if isinstance(value, dict):
            pending += value.items()
            pending += [("", name) for name in value]
        elif isinstance(value, list):
            pending += [(key, item) for item in value]
        elif isinstance(value, str) and not _is_plain(key, value):
            raise _refusal(member, f"has the {key or 'name'} {value[:80]!r}, which is not plain")
        if key in ("guards_code", "custom_obj_values", "as_custom_obj", "custom_obj") and value:
            raise _refusal(member, f"has {key}")


def _is_plain(key: str, text: str) -> bool:
    if key in ("target", "as_operator"):
        return _OPERATOR.fullmatch(text) is not None
    if key in ("as_string", "as_strings"):
        return _OPTION.fullmatch(text) is not None
    if key == "expr_str":
        is_short = len(text) <= _MAX_EXPRESSION and not _LONG_NUMBER.search(text) and "**" not in text
        return is_short and _EXPRESSION.fullmatch(text) is not None
    if key in ("in_spec", "out_spec"):
        return not text or _is_plain_tree(parse_json(text, MAX_CONTRACT_BYTES))
    return _NAME.fullmatch(text) is not None


def _is_plain_tree(document: Any) -> bool:
    """Return whether arguments or results are made of tuples, lists and dictionaries. torch imports other types."""
    if not isinstance(document, list) or len(document) != 2 or document[0] != 1:
        return False
    pending = [document[1]]
    while pending:
        tree = pending.pop()
        if set(tree) != {"type", "context", "children_spec"} or tree["type"] not in (None, *_TREES):
            return False
        context = tree["context"]
        if context is not None and (not isinstance(context, str) or "__enum__" in context or "\\" in context):
            return False
        pending += tree["children_spec"]
    return True
