"""Names of ops may hold anything: what a terminal would obey is shown, not obeyed."""

from __future__ import annotations


def harmless(text: str) -> str:
    """The text with every character that does not print as itself written as its number."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
