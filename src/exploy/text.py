"""Text of others (names, units, messages in files and logs) made safe for terminals, messages and pages."""


def printable(text: str, *, lines: bool = False) -> str:
    """Return a text in which everything that cannot be seen is written as an escape, such as `\\x1b` or `\\u202e`.

    That is: control characters, escape sequences, marks that change the direction of text, characters without a width,
    line and paragraph separators, and halves of surrogate pairs.

    Args:
        text: The text.
        lines: Keep line breaks. For text whose lines are ours.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or (lines and letter == "\n") else _escaped(letter) for letter in text
    )


def for_rich(text: str, *, lines: bool = False) -> str:
    """Return printable text that rich prints as it is, without reading markup in it."""
    from rich.markup import escape

    return escape(printable(text, lines=lines))


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
