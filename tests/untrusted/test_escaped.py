"""Text that is safe to show on a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mixdown.untrusted.escaped import escaped


@given(st.text())
def test_what_is_escaped_is_printable_and_plain_text_stays(words: str) -> None:
    assert escaped(words).isprintable()
    assert escaped(escaped(words)) == escaped(words)
    assert (escaped(words) == words) == words.isprintable()
