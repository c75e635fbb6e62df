"""Loss scaling in TensorFlow and Keras: an optimizer comes in, an optimizer that scales the loss goes out.

The doors are `optimizers.LossScaleOptimizer` and `optimizers.v1`; the loss scales a user may pass are in `loss_scale`.
"""
