"""Runs every scenario in a process with the defaults of TensorFlow 1, and prints what went wrong, by name, as JSON."""

from __future__ import annotations

import json
import sys
import traceback
import warnings

import tensorflow as tf
from tests.tensorflow.sessions.session_lab import enabled
from tests.tensorflow.sessions.session_scenarios import SCENARIOS


def main() -> None:
    warnings.simplefilter("error", UserWarning)  # ours among them
    warnings.filterwarnings("ignore", "float_format is deprecated")  # TensorFlow 2.20 and protobuf 6, among themselves
    tf.compat.v1.disable_v2_behavior()
    outcomes = {}
    for scenario in SCENARIOS:
        try:
            with tf.Graph().as_default(), enabled():
                scenario()
            outcomes[scenario.__name__] = ""
        except Exception:  # noqa: BLE001 - handed to the test, which fails with it
            outcomes[scenario.__name__] = traceback.format_exc()
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
