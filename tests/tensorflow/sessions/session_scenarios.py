"""All scenarios that hold with the defaults of TensorFlow 2 and with those of TensorFlow 1.

Each is run inside `enabled()` and on a graph of its own.
"""

from __future__ import annotations

from tests.tensorflow.sessions.session_building import BUILDING
from tests.tensorflow.sessions.session_running import RUNNING
from tests.tensorflow.sessions.session_training import TRAINING

SCENARIOS = (*TRAINING, *RUNNING, *BUILDING)
