"""tf_keras trains on a session that runs a twin, with the defaults of TensorFlow 1 and of TensorFlow 2."""

from __future__ import annotations

import pytest
from tests.tensorflow.sessions.session_lab import in_a_process_of_its_own


@pytest.mark.parametrize("defaults", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_tf_keras_trains_in_a_session(defaults: str) -> None:
    printed = in_a_process_of_its_own(
        "-m", "tests.tensorflow.sessions.session_with_tf_keras", defaults, TF_USE_LEGACY_KERAS="1"
    )
    assert printed.split() == ["fine"]
