"""Goes on with a saved training run in a process of its own; prints what came of it as one line of JSON.

Arguments: how it was saved (keras, checkpoint), where, the first step to take, the step to stop before, the bad ones.
"""

import json
import sys
from typing import Any

import keras
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers.keras3_training import adam, compiled, contents, fit, wrapped


def main(kind: str, path: str, first: str, end: str, bad: str) -> None:
    net = keras.models.load_model(path) if kind == "keras" else from_checkpoint(path)
    fit(net, range(int(first), int(end)), bad=json.loads(bad))
    print(json.dumps(summary(net)))  # noqa: T201 - the answer


def from_checkpoint(path: str) -> Any:
    """Restored before the optimizer has made its slots, as it is in a new process."""
    net = compiled(wrapped(adam(weight_decay=0.1)))
    status = tf.train.Checkpoint(net=net, optimizer=net.optimizer).restore(path)
    net.optimizer.build(net.trainable_variables)
    status.assert_existing_objects_matched()
    return net


def summary(net: Any) -> dict[str, Any]:
    optimizer = net.optimizer
    return {
        "weights": [each.hex() for each in contents([*net.weights, *optimizer.variables])],
        "skipped": [optimizer.skipped_steps, optimizer.last_skipped_step, optimizer.skips_in_a_row],
        "scale": [optimizer.loss_scale, optimizer.good_steps],
        "offenders": [list(each) for each in optimizer.offending_variables],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
