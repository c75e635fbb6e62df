"""A step of `Keras3LossScaleOptimizer` on backends that pass state around, such as JAX. Read `stateless_step` first.

`keras3_tensorflow` has the same functions for TensorFlow's backend.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import keras
from keras import ops

from mixdown.keras3.private import in_stateless_scope
from mixdown.scaling.machine import divided, law_of
from mixdown.scaling.step_counters import MOST_NAMED, NO_VARIABLE

__all__ = ["functions", "gradients", "law_of", "may_read", "now", "stateless_step", "step", "tensor", "unscaler"]

Values = list[Any]


def step(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any], *, scaled: bool) -> None:
    """Apply the gradients in place if they are finite; count the step."""
    trained, own = optimizer._trainable_variables, optimizer.variables
    ordered = optimizer.in_order(gradients, variables)
    values, trained_values = ([each.value for each in variables] for variables in (own, trained))
    new_trained, new_own = stateless_step(optimizer, values, ordered, trained_values, scaled=scaled)
    for variable, value in zip([*trained, *own], [*new_trained, *new_own], strict=True):
        variable.assign(value)


def stateless_step(
    optimizer: Any, values: Values, gradients: Sequence[Any], trained: Values, *, scaled: bool
) -> tuple[Values, Values]:
    """The trained values and the optimizer's values after a step, from those before it."""
    optimizer.was_compiled = True  # or may be: skips are checked at the next call from Python
    codes = codes_of(gradients)
    finite = ops.all(ops.equal(codes, 0))
    with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, values, strict=True))) as scope:
        applicable = optimizer.unscaled(gradients, optimizer._trainable_variables) if scaled else list(gradients)
        optimizer.count_step(finite, where=ops.where)
        optimizer.log_skip(log_entries(codes), finite=finite, where=ops.where)
    own = [scope.get_current_value(each) for each in optimizer._variables]
    before = list(trained), list(values[len(own) :])
    new_trained, new_inner = ops.cond(
        finite,
        lambda: optimizer.inner_optimizer.stateless_apply(before[1], applicable, before[0]),
        lambda: before,
    )
    return new_trained, [*own, *new_inner]


def codes_of(gradients: Sequence[Any]) -> Any:
    """One code per gradient: 0 finite, 1 holds Inf, 2 holds NaN, 3 holds both. Sums first, as on TensorFlow."""
    total = sum(ops.cast(ops.sum(each), "float32") for each in gradients if each is not None)
    return ops.cond(
        ops.isfinite(total),
        lambda: ops.zeros([len(gradients)], "int32"),
        lambda: ops.stack([_code(each) for each in gradients]),
    )


def _code(gradient: Any) -> Any:
    if gradient is None:
        return ops.zeros([], "int32")
    holds_inf, holds_nan = ops.any(ops.isinf(gradient)), ops.any(ops.isnan(gradient))
    return ops.cast(holds_inf, "int32") + 2 * ops.cast(holds_nan, "int32")


def log_entries(codes: Any) -> Any:
    """The first few gradients with non-zero codes, as a row of the log holds them."""
    last = 4 * len(codes) + 4
    entries = ops.where(codes > 0, 4 * ops.arange(len(codes), dtype="int32") + codes, last)
    first = ops.sort(ops.pad(entries, [[0, MOST_NAMED]], constant_values=last))[:MOST_NAMED]
    return ops.where(first < last, first, NO_VARIABLE)


def unscaler(scale: Any) -> Callable[[Any], Any]:
    """What divides a gradient by the scale, in its own dtype."""
    return lambda gradient: divided(gradient, scale, ops.cast)


def gradients(*_: Any) -> NoReturn:
    """Refuse: these backends differentiate in ways of their own."""
    raise NotImplementedError(
        f"minimize works on the TensorFlow backend, not on {keras.backend.backend()}. "
        "Differentiate scale_loss(loss) yourself and call apply or stateless_apply."
    )


def functions() -> tuple[()]:
    """None: what is traced cannot be known here."""
    return ()


def tensor(weight: Any) -> Any:
    """The value of a weight."""
    return ops.convert_to_tensor(weight)


def now(weight: Any) -> Any:
    """The value of a weight, as a Python number."""
    return weight.numpy().item()


def may_read(weight: Any) -> bool:
    """Whether the value of a weight can be read now: Keras takes it away while `fit` passes values around."""
    return not in_stateless_scope() and weight._value is not None  # there is no public way to know
