"""A process with something of everything that `mixdown.report` tells; prints the report as JSON.

Run as a script: what is told concerns the whole process.
"""

import gc
import sys
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

import mixdown

keras = tf.keras
POLICY = mixdown.Policy(devices="all")
v1 = tf.compat.v1


@tf.function
def product(x: Any) -> Any:
    """Can be low."""
    return tf.matmul(x, x)


@tf.function
def exponent(x: Any) -> Any:
    """Cannot be low."""
    return tf.exp(x)


def forgotten(x: Any) -> None:
    """Let a function be rewritten and go."""
    tf.function(lambda y: y @ y)(x)


def session_that_grows() -> Any:
    """A session whose graph grows after it has run."""
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [4, 4], name="x")
        relu = tf.nn.relu(x, name="relu")
        session = v1.Session()
        session.run(relu, {x: np.ones([4, 4])})
        session.run(tf.matmul(relu, relu, name="product"), {x: np.ones([4, 4])})
    return session


def session_left_alone() -> Any:
    """A session that is told not to."""
    config = v1.ConfigProto()
    config.graph_options.rewrite_options.auto_mixed_precision = 2
    with tf.Graph().as_default():
        return v1.Session(config=config)


def session_that_never_ran() -> Any:
    """A session without a run."""
    with tf.Graph().as_default():
        return v1.Session()


def main() -> None:
    """Live the story."""
    x = tf.ones([4, 4])
    sessions = [session_that_grows]
    opt = mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=POLICY)
    product(x)
    product(x)
    exponent(x)
    forgotten(x)
    gc.collect()
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
    model.compile(opt, "mse")
    model.fit(np.ones([4, 4]), np.ones([4, 2]), verbose=0)
    kept = [make() for make in (*sessions, session_left_alone, session_that_never_ran)]
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("ignore")  # kept for the report all the same
        late = mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=POLICY)
    late.usage.note_scaled()  # or else it would be said that it was never used
    del late
    gc.collect()
    mixdown.disable_mixed_precision_graph_rewrite()
    sys.stdout.write(mixdown.report().to_json())
    del kept


main()
