"""For Keras 3: the callback, and the optimizer class that saved models name. Importing it registers the class.

`import mixdown.keras` before `load_model`, if mixdown was imported before Keras.
"""

import keras

from mixdown.keras3.optimizer import Keras3LossScaleOptimizer
from mixdown.keras3.training_log import TrainingLog
from mixdown.keras_registration import register

__all__ = ["Keras3LossScaleOptimizer", "MixedPrecisionCallback"]


class MixedPrecisionCallback(TrainingLog, keras.callbacks.Callback):
    """Writes the loss scale and the skipped steps into the history of `fit` and into an event file for TensorBoard.

    `history.history` gets an entry per epoch under `loss_scale` (the scale at its end), `skipped_steps` (all so far)
    and `skips` (those of the epoch: the step, and the variables with "Inf" or "NaN"). The event file gets every change
    of the scale and every skip at its step, the share of float32 ops that run in 16 bits, and at the end the report.

    Args:
        log_dir: where to write an event file for TensorBoard; None to write none.
    """


register()  # with tf_keras too, if it has been imported
