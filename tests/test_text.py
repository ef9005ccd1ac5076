"""Text of others: what cannot be seen is written out, everything else stays as it is."""

import pytest

from exploy.contract import Contract, Port
from exploy.errors import ContractError, DuplicateNameError, Fault, FaultError, Guard, OutputPathError
from exploy.tables import Table
from exploy.text import for_rich, printable


@pytest.mark.parametrize("text", ["", "joint_pos", "Kraft in N·m", "関節", "°/s ✓ 🤖", "a b", "[red]"])
def test_what_can_be_seen_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\rb", r"a\rb"),
        ("a\nb", r"a\nb"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u202egnp", r"\u202egnp"),
        ("\u2066a\u2069", r"\u2066a\u2069"),
        ("a\u200bb\u200e\u200f", r"a\u200bb\u200e\u200f"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("\ufeff", r"\ufeff"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_of_ours_are_kept() -> None:
    assert printable("a\nb\x1b", lines=True) == "a\nb\\x1b"


def test_markup_is_not_read() -> None:
    assert for_rich("[red]x[/red]\x1b") == r"\[red]x\[/red]\x1b"


@pytest.mark.parametrize("is_rich", [True, False])
def test_tables_take_any_text(is_rich: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_rich:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    text = str(Table("name", rows=[("[red]a[/]\x1b[2J\n:smile:\u202e",)]))
    assert r"[red]a[/]\x1b[2J\n:smile:\u202e" in text


def test_messages_are_safe_to_print() -> None:
    name = "x\x1b[2J\nerror: forged\u202e"
    fault = Fault(Guard.INPUTS, 3, f"input {name}", name)
    for error in (ContractError(name), FaultError(name, fault), DuplicateNameError(name), OutputPathError(name)):
        assert "\x1b" not in str(error) and "\u202e" not in str(error), type(error)
    assert "\x1b" not in fault.message and "\n" not in fault.message
    assert "\n" not in str(ContractError(name)) and "\n" not in str(FaultError(name, fault)) and "\n" not in str(fault)
    contract = Contract(1, (Port(name, "float32", (1,), unit="\x1b[1m"),), (), (), backend="\x1b]0;x\x07")
    assert "\x1b" not in str(contract) and "\x07" not in str(contract)
