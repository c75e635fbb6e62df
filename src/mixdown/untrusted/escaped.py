"""Escapes text before it is shown: op names may hold control characters, which a terminal would act on."""


def escaped(text: str) -> str:
    """The text with every character that is not printable replaced by its escape sequence."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
