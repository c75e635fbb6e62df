"""Goes on with saved runs in a new process; prints what came of them as one line of JSON.

Arguments: first step, end, bad steps, then the runs: a style and a file each. A name that ends in .keras or .h5 is a
whole model, any other a checkpoint.
"""

import json
import sys
from typing import Any

import tensorflow as tf
import tf_keras
from tests.tensorflow.loss_scaling.optimizers.tf_keras_training import (
    bare,
    books_of,
    compiled,
    fit,
    weights_of,
    wrapped,
)


def main(start: str, end: str, bad: str, *runs: str) -> None:
    results = {}
    for style, path in zip(runs[::2], runs[1::2], strict=True):
        net = loaded(style, path)
        fit(net, range(int(start), int(end)), bad=tuple(json.loads(bad)))
        results[path] = [[each.hex() for each in weights_of(net)], books_of(net.optimizer)]
    print(json.dumps(results))  # noqa: T201 - the answer


def loaded(style: str, path: str) -> Any:
    if path.endswith((".keras", ".h5")):
        return tf_keras.models.load_model(path)
    net = compiled(wrapped(bare(style)))
    tf.train.Checkpoint(model=net, optimizer=net.optimizer).restore(path)
    return net


if __name__ == "__main__":
    main(*sys.argv[1:])
