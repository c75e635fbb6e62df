"""Sessions under a policy, with the defaults of TensorFlow 2: resource variables and functional control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tensorflow as tf
from tests.tensorflow.sessions.session_lab import enabled
from tests.tensorflow.sessions.session_scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_with_the_defaults_of_tensorflow_2(scenario: Callable[[], None]) -> None:
    with tf.Graph().as_default(), enabled():
        scenario()
