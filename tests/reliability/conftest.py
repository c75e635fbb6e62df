"""The fixture `tally`: a test of this folder says what it went through; `tests/conftest.py` adds it all up."""

from collections.abc import Callable

import pytest

Tally = Callable[..., None]  # tally(kind: str, count: int = 1)


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Count what a test went through: `tally("fuzz functions", 40)`, `tally("faults injected")`."""

    def note(kind: str, count: int = 1) -> None:
        request.node.user_properties.append(("tally", (kind, count)))

    return note
