"""tf_keras on a session, as in TensorFlow 1: run in a process of its own, with "1" for the defaults of TensorFlow 1."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tensorflow as tf
from tests.tensorflow.sessions.session_lab import Trace, assert_same_surface, enabled, plainly, v1

ROWS = np.random.default_rng(0).normal(size=(32, 6, 4)).astype("float32")


def model() -> Any:
    """A network with recurrent, convolution, normalization and dense layers."""
    layers = v1.keras.layers
    return v1.keras.Sequential(
        [
            layers.InputLayer((6, 4)),
            layers.LSTM(8, return_sequences=True),
            layers.Conv1D(4, 3),
            layers.BatchNormalization(),
            layers.GRU(4),
            layers.Dense(2),
        ]
    )


def main() -> None:
    if sys.argv[1] == "1":
        v1.disable_v2_behavior()
    np.random.seed(0)  # noqa: NPY002 - tf_keras shuffles with it
    backend = v1.keras.backend
    with tf.Graph().as_default(), enabled(), v1.Session(config=plainly()) as session:
        v1.set_random_seed(0)
        backend.set_session(session)
        network = model()
        network.compile("adam", "mse")
        losses = network.fit(ROWS, ROWS[:, 0, :2], epochs=4, batch_size=16, verbose=0).history["loss"]
        assert losses[-1] < losses[0]
        assert network.predict(ROWS, verbose=0).dtype == np.float32
        weights = network.get_weights()
        network.set_weights([weight * 0 for weight in weights])
        assert not network.predict(ROWS, verbose=0).any()
        trace = Trace(session, network.output, {network.input: ROWS})
        trace.low("MatMul", "Conv2D")
        assert len(trace.types("MatMul")) >= 5
        convolved, normal = network.layers[1].output, network.layers[2].output
        ahead = backend.function([convolved], [normal])  # feeds a tensor that was converted
        network.set_weights(weights)
        expected = session.run(normal, {convolved: np.ones((1, 4, 4)), backend.learning_phase(): 0})
        np.testing.assert_allclose(ahead([np.ones((1, 4, 4), "float32")])[0], expected)
        assert_same_surface(session)
    print("fine")  # noqa: T201 - read by the test


if __name__ == "__main__":
    main()
