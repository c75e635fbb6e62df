"""The models that are compiled, and one training step for all of them. Start with MODELS.

The step is a pure function of tensors, like a compiled program: it takes weights, statistics and momenta and returns
the new ones. All variants of a model (a Keras dtype policy, a rewrite) use the same step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from benchmarks.xla_gpu.families import other, regular, text, vision
from benchmarks.xla_gpu.families.example import Example

LEARNING_RATE, MOMENTUM = 0.01, 0.9

MODELS: dict[str, Example] = {**other.MODELS, **text.MODELS, **vision.MODELS, **regular.MODELS}


def training_step(model: Any, example: Example, scale: float) -> Callable[..., list[Any]]:
    """One step of SGD with momentum, with the loss multiplied by a fixed scale, as a function of tensors."""
    weights, others = len(model.trainable_variables), len(model.non_trainable_variables)
    count = len(example.inputs)

    def step(*tensors: Any) -> list[Any]:
        values, kept = list(tensors[:weights]), list(tensors[weights : weights + others])
        start = weights + others
        before, batch = tensors[start : start + weights], tensors[start + weights :]
        inputs, targets = batch[:count], batch[count:]
        with tf.GradientTape() as tape:
            tape.watch(values)
            made, kept = model.stateless_call(values, kept, inputs if count > 1 else inputs[0], training=True)
            outputs = [tf.cast(output, values[0].dtype) for output in tf.nest.flatten(made)]
            loss = example.loss(outputs, targets)
            scaled = loss * scale
        gradients = [unscaled(gradient, scale) for gradient in tape.gradient(scaled, values)]
        momenta = [MOMENTUM * momentum + gradient for momentum, gradient in zip(before, gradients, strict=True)]
        updated = [value - LEARNING_RATE * momentum for value, momentum in zip(values, momenta, strict=True)]
        return [*updated, *kept, *momenta, loss]

    return step


def unscaled(gradient: Any, scale: float) -> Any:
    """A gradient without the loss scale, dense; of a table, only the rows that were looked up are multiplied."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.convert_to_tensor(tf.IndexedSlices(gradient.values / scale, gradient.indices, gradient.dense_shape))
    return gradient * (1 / scale)


def signature(model: Any, example: Example) -> Sequence[tf.TensorSpec]:
    """The arguments of the step: weights, other variables, momenta, inputs, targets."""
    variables = (*model.trainable_variables, *model.non_trainable_variables, *model.trainable_variables)
    specs = [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]
    return [*specs, *example.inputs, *example.targets]
