"""Keras 3 on every backend: an optimizer comes in, one that scales the loss goes out; and what `fit` logs of it.

The door is `Keras3LossScaleOptimizer`. A backend's own part is in its host (`keras3_tensorflow`) or, where Keras passes
state around as on JAX, in `functional`; so no host is needed for another's backend.
"""
