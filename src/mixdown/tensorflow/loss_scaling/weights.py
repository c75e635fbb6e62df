"""Non-trainable variables of an object, one set for eager execution and one for each `tf.Graph`.

A loss scale may be built in one graph and used in another. `Weighted` gives it the variables of the current graph,
created at first use, and saves only those in checkpoints. Start with `Weighted.weight`.
"""

from contextlib import nullcontext
from typing import Any

import tensorflow as tf

from mixdown.tensorflow.runtime.private import Trackable


# The class behind tf.Module and the v1 optimizers. tf.Module itself shows a checkpoint all variables it can reach,
# those of other graphs too.
class Weighted(Trackable):
    """A checkpointable object with weights. Subclasses call `declare` in their constructor, then `create`."""

    def __init__(self) -> None:
        self._declared: dict[str, tuple[Any, tf.DType]] = {}
        self._weights: dict[tf.Graph | None, dict[str, tf.Variable]] = {}

    def declare(self, name: str, initial: Any, dtype: tf.DType) -> None:
        """Add a weight, which will exist in every graph the object is used in."""
        self._declared[name] = initial, dtype

    def weight(self, name: str) -> tf.Variable:
        """The variable of that name in the current graph."""
        return self.create()[name]

    @property
    def weights(self) -> list[tf.Variable]:
        """The variables of the current graph, created if this is the first use there."""
        return list(self.create().values())

    @property
    def homes(self) -> list[tf.Graph | None]:
        """The graphs that have a set of weights; None stands for eager execution."""
        return list(self._weights)

    def create(self) -> dict[str, tf.Variable]:
        """All weights of the current graph by name, made together so that a Saver sees all or none."""
        made = self._weights.setdefault(home(), {})
        for name, (initial, dtype) in self._declared.items():
            if name not in made:
                made[name] = _variable(name, initial, dtype)
                self._handle_deferred_dependencies(name=name, trackable=made[name])
        return made

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        made = self._weights.get(home(), {})
        return {**super()._trackable_children(save_type, **kwargs), **made}

    def _lookup_dependency(self, name: str, *args: Any, **kwargs: Any) -> Any:
        made = self._weights.get(home(), {})
        return made[name] if name in made else super()._lookup_dependency(name, *args, **kwargs)


def home() -> tf.Graph | None:
    """The graph in which variables are created now; None if they are created eagerly."""
    with tf.init_scope():
        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def _variable(name: str, initial: Any, dtype: tf.DType) -> tf.Variable:
    """A new variable outside any function being traced, mirrored if a strategy is active."""
    scope = tf.distribute.get_strategy().scope() if tf.distribute.has_strategy() else nullcontext()
    with tf.init_scope(), scope:
        return tf.Variable(
            initial_value=initial,
            dtype=dtype,
            trainable=False,
            name=name,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,  # all replicas write the same value
        )
