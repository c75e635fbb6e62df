"""The documented calls, on the host that an optimizer or the process needs: TensorFlow, or JAX under Keras 3.

A host is imported when it is first needed: the other one need not be installed.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mixdown.core import Policy
from mixdown.errors import MixdownError, WrongTypeError
from mixdown.keras_registration import CLASSES
from mixdown.reports import Report

KERAS3_OPTIMIZER = "keras.src.optimizers.base_optimizer.BaseOptimizer"  # it is in the table of private names, too

WRAPPERS = {f"mixdown.{library}.{name}" for library, names in CLASSES.items() for name in names}
"""The wrapper classes, by the names that saved files have for them."""


def enable_mixed_precision_graph_rewrite(opt: Any, loss_scale: Any = "dynamic", *, policy: Policy | None = None) -> Any:
    """Run the safe, expensive ops of every program from now on in 16 bits, and scale the loss.

    Programs are the tf.functions and sessions of TensorFlow; for a Keras 3 optimizer with `KERAS_BACKEND=jax`, all
    programs that JAX compiles.

    Args:
        opt: a Keras 3, tf_keras or `tf.compat.v1.train` optimizer. Train with the one that is returned.
        loss_scale: a number, "dynamic", or a `LossScale`; of TensorFlow's own loss scales, the values are taken over.
        policy: what may run in 16 bits, and where; the default policy if None.

    Returns:
        The optimizer, wrapped so that small gradients do not vanish in 16 bits and bad steps are skipped.

    Raises:
        ValueError: a mixed Keras dtype policy is set, or `opt` is wrapped already.
        WrongTypeError: `opt` is not an optimizer. It is a ValueError, and a TypeError too.
        MixdownError: this TensorFlow or JAX is not one that mixdown can put its hooks into.
    """
    backend = keras_backend(opt)
    if backend == "jax":
        return import_module("mixdown.jax.keras_on_jax").enable_for(opt, loss_scale, policy)
    if backend not in (None, "tensorflow"):
        raise MixdownError(
            f"The rewrite works on the TensorFlow and JAX backends of Keras, not on {backend}. Set KERAS_BACKEND=jax, "
            "or use mixdown.LossScaleOptimizer(opt), which scales the loss on every backend."
        )
    return import_module("mixdown.tensorflow.enable").enable_mixed_precision_graph_rewrite(
        opt, loss_scale, policy=policy
    )


def disable_mixed_precision_graph_rewrite() -> None:
    """Run every program in float32 again. Wrapped optimizers stay wrapped, and sessions that exist stay as they are."""
    lowering = sys.modules.get("mixdown.jax.lowering")
    if lowering is not None and lowering.in_force().value is not None:
        import_module("mixdown.jax").disable()
    if tensorflow := sys.modules.get("mixdown.tensorflow.enable"):
        tensorflow.disable_mixed_precision_graph_rewrite()


class _Wrappers(type):
    """Makes `isinstance` and `issubclass` hold for the wrappers of all libraries, none of which is imported for it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return issubclass(type(instance), cls)

    def __subclasscheck__(cls, subclass: type) -> bool:
        names = {f"{each.__module__}.{each.__qualname__}" for each in subclass.__mro__}
        return not names.isdisjoint(WRAPPERS) or super().__subclasscheck__(subclass)


class LossScaleOptimizer(metaclass=_Wrappers):
    """A Keras 3 or tf_keras optimizer, wrapped so that it scales the loss and skips non-finite steps.

    What is made is an optimizer of the same library, for `compile` and `fit` or a loop of your own; `isinstance` takes
    it for an instance of this class, too.

    Args:
        inner: an optimizer of Keras 3 (`keras.optimizers`, on any backend) or tf_keras (`tf_keras.optimizers`, also its
            `legacy` ones).
        loss_scale: "dynamic", a number (a fixed scale) or a `mixdown.LossScale`; of TensorFlow's own loss scales, the
            values are taken over.
        skip_limit: skips in a row after which `mixdown.LossScaleError` is raised; None to be warned once at 50. In a
            graph TensorFlow delivers the error as an `UnknownError` with its text. A step compiled by XLA cannot raise
            it: the error then comes when `fit` ends, or from the next call of `check_skips`, `scale_loss`, `apply` or
            `apply_gradients` from Python.

    Raises:
        WrongTypeError: `inner` is not an optimizer, or not one of these libraries.
        ValueError: `inner` scales the loss already.
        MixdownError: its library is not as mixdown knows it.
    """

    def __new__(cls, inner: Any, loss_scale: Any = "dynamic", *, skip_limit: int | None = None) -> Any:
        """Make the wrapper of the library that an optimizer comes from."""
        if keras_backend(inner) not in (None, "tensorflow"):
            import_module("mixdown.keras3.private").refuse_missing()
            wrapper = import_module("mixdown.keras3.optimizer").Keras3LossScaleOptimizer
        else:
            wrapper = import_module("mixdown.tensorflow.loss_scaling.optimizers").LossScaleOptimizer
        return wrapper(inner, loss_scale, skip_limit=skip_limit)

    if TYPE_CHECKING:  # what else it has depends on the library

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...


def unwrap(model: Any) -> Any:
    """Compile a model again with the plain optimizer inside its wrapper, so that what is saved loads without mixdown.

    Weights, the optimizer's state, loss and metrics stay; the loss scale and its counts go. A model whose optimizer is
    not wrapped stays as it is.

    Args:
        model: a model of Keras 3 or tf_keras.

    Returns:
        The same model: `mixdown.unwrap(model).save("plain.keras")`.

    Raises:
        WrongTypeError: it is no model.
    """
    loaded = (sys.modules.get(name) for name in ("keras", "tf_keras"))
    library = next((each for each in loaded if each is not None and isinstance(model, each.Model)), None)
    if library is None:
        hint = " Its inner_optimizer is the plain one." if isinstance(model, LossScaleOptimizer) else ""
        raise WrongTypeError(f"unwrap takes a model of Keras 3 or tf_keras, got a {type(model).__name__}.{hint}")
    if isinstance(getattr(model, "optimizer", None), LossScaleOptimizer):
        keras = import_module("mixdown.keras3.either_keras")
        keras.with_optimizer(library, model, model.optimizer.inner_optimizer)
    return model


def report() -> Report:
    """Say what was rewritten in this process, what was left alone, and what became of the loss scales.

    Returns:
        A report of every function, session and JAX program that ran, or would have run, in mixed precision: print it,
        ask it `why("dense/MatMul")`, or save it as a page.
    """
    first, *others = _reports()
    for each in others:
        first = replace(first, graphs=(*first.graphs, *each.graphs), versions={**first.versions, **each.versions})
    return first


def _reports() -> Iterator[Report]:
    """The reports of the hosts that are in use; if none is, that of one which is installed."""
    on_jax = "mixdown.jax.lowering" in sys.modules
    on_tensorflow = "mixdown.tensorflow.install" in sys.modules
    if on_tensorflow or not (on_jax or find_spec("tensorflow") is None):
        yield import_module("mixdown.tensorflow.explaining.process_report").report()
    if on_jax or not (on_tensorflow or find_spec("tensorflow") is not None):
        yield import_module("mixdown.jax").report()


def keras_backend(optimizer: Any) -> str | None:
    """The backend of Keras 3, if this is one of its optimizers; None if it is something else."""
    ancestors = {f"{each.__module__}.{each.__qualname__}" for each in type(optimizer).__mro__}
    return str(sys.modules["keras"].backend.backend()) if KERAS3_OPTIMIZER in ancestors else None
