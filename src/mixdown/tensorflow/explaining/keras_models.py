"""Models of Keras 3 and of tf_keras, traced but never run: `forward` and `training_step` give concrete functions."""

import inspect
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from mixdown.errors import GraphError

CACHES = ("train_function", "train_tf_function", "test_function", "predict_function")
"""Where a model caches the functions that it calls. The one that is traced must not stay, for the model may change; and
tf_keras forgets all of them if what is compiled changes."""


def is_model(target: Any) -> bool:
    """Whether something is a model of Keras 3 or of tf_keras."""
    libraries = (sys.modules.get(name) for name in ("keras", "tf_keras"))
    return any(library is not None and isinstance(target, library.Model) for library in libraries)


def is_compiled_by_default(model: Any) -> bool:
    """Whether Keras has XLA compile the model on a machine with one GPU; tf_keras does not unless it is asked to."""
    _refuse_unready(model)
    keras = sys.modules.get("keras")
    if model.distribute_strategy.num_replicas_in_sync > 1 or keras is None or not isinstance(model, keras.Model):
        return bool(model.jit_compile)
    with _jit_compiled(model, jit_compile=True):
        return bool(model.jit_compile)  # Keras refuses, if a layer does not support it


def forward(model: Any, *inputs: Any, jit_compile: bool = False) -> Any:
    """The forward pass for inputs like these, or by default for the inputs that the model declares."""
    _refuse_unready(model)

    def forward_pass(*arguments: Any) -> Any:
        return model(*arguments, training=False)

    function = tf.function(forward_pass, jit_compile=jit_compile or None)
    return function.get_concrete_function(*(_specs(inputs) if inputs else _own_inputs(model)))


def training_step(model: Any, data: Any, *, jit_compile: bool | None = None) -> Any:
    """The function that `fit` calls at every step, for batches like `data`: a tuple of x, y and maybe sample weights.

    The slots of an optimizer that has none yet are made, as zeros, just as `fit` would. Nothing else changes. Whether
    XLA compiles the step is as the model says, unless that is said here.
    """
    _refuse_unready(model)
    if getattr(model, "optimizer", None) is None:
        raise GraphError(f"The model {model.name!r} has no training step yet: call model.compile(...) first.")
    if model.run_eagerly:
        raise GraphError(
            f"The model {model.name!r} runs eagerly, so there is no graph: compile it without run_eagerly."
        )
    kept = {name: getattr(model, name) for name in CACHES if hasattr(model, name)}
    try:
        for name in kept:
            setattr(model, name, None)
        with _jit_compiled(model, jit_compile=model.jit_compile if jit_compile is None else jit_compile):
            model.make_train_function()
            return _on_iterator(model.train_function).get_concrete_function(tf.data.IteratorSpec(_specs(data)))
    finally:
        for name, value in kept.items():
            setattr(model, name, value)


@contextmanager
def _jit_compiled(model: Any, *, jit_compile: bool | None) -> Iterator[None]:
    """Have XLA compile the model or not, for a while, if it supports that."""
    kept = model.jit_compile
    try:
        with warnings.catch_warnings(action="ignore"):  # Keras warns of what it refuses
            model.jit_compile = jit_compile
        yield
    finally:
        model.jit_compile = kept


def _on_iterator(train_function: Any) -> Any:
    """The tf.function that takes an iterator: in tf_keras the function itself, in Keras 3 inside a plain function."""
    if hasattr(train_function, "get_concrete_function"):
        return train_function
    # Private: Keras 3 offers no other access. Its name ends in `_on_iterator` in Keras 3.0 to 3.15.
    inside = inspect.getclosurevars(train_function).nonlocals
    found = [each for name, each in inside.items() if name.endswith("on_iterator")]
    if not found or not hasattr(found[0], "get_concrete_function"):
        raise GraphError(
            "This Keras keeps its training step where mixdown does not find it. Explain a tf.function that calls "
            "model.train_step(data) instead."
        )
    return found[0]


def _refuse_unready(model: Any) -> None:
    if not model.built:
        raise GraphError(
            f"The model {model.name!r} has no weights yet, and explaining must not make any: build it first, "
            f"model.build(input_shape), or call it once."
        )
    backend = getattr(sys.modules.get("keras"), "backend", None)
    if type(model).__module__.startswith("keras.") and backend is not None and backend.backend() != "tensorflow":
        raise GraphError(
            f"Keras runs on {backend.backend()} here, so the model {model.name!r} has no TensorFlow graph."
        )


def _own_inputs(model: Any) -> list[Any]:
    inputs = getattr(model, "inputs", None)
    if not inputs:
        raise GraphError(
            f"The model {model.name!r} does not say what it takes. Give an example, or "
            f"tf.TensorSpec(shape), after the model."
        )
    return [_specs(inputs[0] if len(inputs) == 1 else model.input)]  # several keep the structure they were given in


def _specs(values: Any) -> Any:
    return tf.nest.map_structure(_spec, values)


def _spec(value: Any) -> Any:
    """The dtype and shape of one value; 64-bit floats become 32-bit floats, as in Keras."""
    if isinstance(value, tf.TypeSpec):
        return value
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        value = np.asarray(value)
    dtype = tf.as_dtype(value.dtype)
    return tf.TensorSpec(value.shape, tf.float32 if dtype == tf.float64 else dtype)
