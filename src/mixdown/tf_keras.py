"""For tf_keras: the callback, and the optimizer classes that saved models name. Importing it registers the classes.

`import mixdown.tf_keras` before `load_model`, if mixdown was imported before tf_keras.
"""

import tf_keras

from mixdown.keras3.training_log import TrainingLog
from mixdown.tensorflow.loss_scaling.optimizers.tf_keras import (
    TfKerasLegacyLossScaleOptimizer,
    TfKerasLossScaleOptimizer,
)

__all__ = ["TfKerasLegacyLossScaleOptimizer", "TfKerasLossScaleOptimizer", "TfKerasMixedPrecisionCallback"]


class TfKerasMixedPrecisionCallback(TrainingLog, tf_keras.callbacks.Callback):
    """`mixdown.keras.MixedPrecisionCallback` for `fit` of tf_keras, with the same argument and entries."""
