"""The same with the defaults of TensorFlow 1: reference variables and control flow made of Switch and Merge."""

from __future__ import annotations

import json

import pytest
from tests.tensorflow.sessions.session_lab import in_a_process_of_its_own
from tests.tensorflow.sessions.session_scenarios import SCENARIOS


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """What went wrong in each scenario, "" if nothing did."""
    printed = in_a_process_of_its_own("-m", "tests.tensorflow.sessions.session_as_in_tensorflow_1")
    found: dict[str, str] = json.loads(printed.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", [scenario.__name__ for scenario in SCENARIOS])
def test_with_the_defaults_of_tensorflow_1(name: str, outcomes: dict[str, str]) -> None:
    assert not outcomes[name], outcomes[name]
