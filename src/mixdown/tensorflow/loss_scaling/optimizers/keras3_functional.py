"""One step of a Keras 3 loss-scale optimizer on backends that pass state around, such as JAX. Read `stateless_step`."""

from collections.abc import Sequence
from typing import Any, NoReturn

import keras
from keras import ops

from mixdown.scaling.alarm import MOST_NAMED
from mixdown.scaling.skip_log import NOBODY
from mixdown.tensorflow.runtime.private import in_stateless_scope

Values = list[Any]


def step(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any], *, scaled: bool) -> None:
    """Apply the gradients in place if they are finite; enter the outcome in the books."""
    trained, own = optimizer._trainable_variables, optimizer.variables
    ordered: list[Any] = [None] * len(trained)
    for gradient, variable in zip(gradients, variables, strict=True):
        ordered[optimizer.position(variable)] = gradient
    new_trained, new_own = stateless_step(optimizer, values_of(own), ordered, values_of(trained), scaled=scaled)
    for variable, value in zip([*trained, *own], [*new_trained, *new_own], strict=True):
        variable.assign(value)


def stateless_step(
    optimizer: Any, values: Values, gradients: Sequence[Any], trained: Values, *, scaled: bool
) -> tuple[Values, Values]:
    """The trained values and the optimizer's values after a step, from those before it."""
    optimizer.alarm_is_late = True  # a compiled step cannot call Python: heard at the next call from Python
    codes = codes_of(gradients)
    finite = ops.all(ops.equal(codes, 0))
    with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, values, strict=True))) as scope:
        applicable = optimizer.unscaled(gradients, optimizer._trainable_variables) if scaled else list(gradients)
        optimizer.enter(finite, where=ops.where)
        optimizer.log_skip(encoded(codes), finite=finite, where=ops.where)
    own = [scope.get_current_value(each) for each in optimizer._variables]
    before = list(trained), list(values[len(own) :])
    new_trained, new_inner = ops.cond(
        finite,
        lambda: optimizer.inner_optimizer.stateless_apply(before[1], applicable, before[0]),
        lambda: before,
    )
    return new_trained, [*own, *new_inner]


def values_of(variables: Sequence[Any]) -> Values:
    """What the variables hold now."""
    return [each.value for each in variables]


def codes_of(gradients: Sequence[Any]) -> Any:
    """One code a gradient: 0 finite, 1 holds Inf, 2 holds NaN, 3 holds both. Sums first, as on TensorFlow."""
    total = sum(ops.cast(ops.sum(each), "float32") for each in gradients if each is not None)
    return ops.cond(
        ops.isfinite(total),
        lambda: ops.zeros([len(gradients)], "int32"),
        lambda: ops.stack([code_of(each) for each in gradients]),
    )


def code_of(gradient: Any) -> Any:
    """The code of one gradient; a missing one is finite."""
    if gradient is None:
        return ops.zeros([], "int32")
    holds_inf, holds_nan = ops.any(ops.isinf(gradient)), ops.any(ops.isnan(gradient))
    return ops.cast(holds_inf, "int32") + 2 * ops.cast(holds_nan, "int32")


def encoded(codes: Any) -> Any:
    """The first few gradients with non-zero codes, as a row of the log has them."""
    last = 4 * len(codes) + 4
    entries = ops.where(codes > 0, 4 * ops.arange(len(codes), dtype="int32") + codes, last)
    first = ops.sort(ops.pad(entries, [[0, MOST_NAMED]], constant_values=last))[:MOST_NAMED]
    return ops.where(first < last, first, NOBODY)


def unscaled(gradient: Any, scale: Any) -> Any:
    """The gradient divided by the scale, in float32 at least: half does not hold every scale."""
    wide = "float64" if keras.backend.standardize_dtype(gradient.dtype) == "float64" else "float32"
    return ops.cast(ops.cast(gradient, wide) / ops.cast(scale, wide), gradient.dtype)


def gradients(*_: Any) -> NoReturn:
    """Refuse: how to differentiate is not this module's to know."""
    raise NotImplementedError(
        f"minimize works on the TensorFlow backend, not on {keras.backend.backend()}. "
        "Differentiate scale_loss(loss) yourself and call apply or stateless_apply."
    )


def tensor(weight: Any) -> Any:
    """The value of a weight."""
    return ops.convert_to_tensor(weight)


def now(weight: Any) -> Any:
    """The value of a weight, as a Python number."""
    return weight.numpy().item()


def may_read(weight: Any) -> bool:
    """Whether the value of a weight can be had now: Keras takes it away while `fit` passes values around."""
    return not in_stateless_scope() and weight._value is not None  # no public way to ask
