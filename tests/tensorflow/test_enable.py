"""The documented call: what it does, in which order, and what it refuses."""

from collections.abc import Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras

import mixdown
from mixdown.tensorflow.calls import active_policy

CPU_TOO = mixdown.Policy(devices=("GPU", "CPU"))
LARGE = tf.constant([[300.0]])


@pytest.fixture(autouse=True)
def _disabled_afterwards() -> Iterator[None]:
    yield
    active_policy.set_process_policy(None)
    keras.config.set_dtype_policy("float32")
    tf_keras.mixed_precision.set_global_policy("float32")


def product() -> float:
    """300 * 300: 90000 in float32, inf in float16."""
    return float(tf.function(tf.matmul)(LARGE, LARGE)[0, 0])


def used(optimizer: Any) -> Any:
    """An optimizer that was used, so that nothing warns about it when the test throws it away."""
    optimizer.usage.note_scaled()
    return optimizer


OPTIMIZERS = {
    "keras 3": lambda: keras.optimizers.SGD(0.1),
    "tf_keras": lambda: tf_keras.optimizers.SGD(0.1),
    "tf_keras legacy": lambda: tf_keras.optimizers.legacy.SGD(0.1),
    "v1": lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
}
BASES = {
    "keras 3": keras.optimizers.Optimizer,
    "tf_keras": tf_keras.optimizers.Optimizer,
    "tf_keras legacy": tf_keras.optimizers.legacy.Optimizer,
    "v1": tf.compat.v1.train.Optimizer,
}


@pytest.mark.parametrize("library", OPTIMIZERS)
def test_enabling_wraps_the_optimizer_and_makes_functions_low(library: str) -> None:
    inner = OPTIMIZERS[library]()
    wrapped = used(mixdown.enable_mixed_precision_graph_rewrite(inner, policy=CPU_TOO))
    assert wrapped is not inner
    assert isinstance(wrapped, BASES[library])
    assert product() == float("inf")
    mixdown.disable_mixed_precision_graph_rewrite()
    assert product() == 90000.0


@pytest.mark.parametrize("scale", [128, 128.0, mixdown.FixedLossScale(128)])
def test_loss_scale_may_be_a_number_or_an_object(scale: Any) -> None:
    opt = used(mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), loss_scale=scale, policy=CPU_TOO))
    assert float(opt.scale_loss(tf.constant(1.0))) == 128.0


def test_default_scale_is_dynamic_and_starts_at_2_to_the_15() -> None:
    opt = used(mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=CPU_TOO))
    assert float(opt.scale_loss(tf.constant(1.0))) == 2.0**15


def test_function_traced_before_enabling_becomes_low_and_is_itself_again_after_disabling() -> None:
    function = tf.function(tf.matmul)
    assert float(function(LARGE, LARGE)[0, 0]) == 90000.0
    used(mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=CPU_TOO))
    assert float(function(LARGE, LARGE)[0, 0]) == float("inf")
    mixdown.disable_mixed_precision_graph_rewrite()
    assert float(function(LARGE, LARGE)[0, 0]) == 90000.0


def test_eager_ops_are_untouched() -> None:
    used(mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=CPU_TOO))
    assert float(tf.matmul(LARGE, LARGE)[0, 0]) == 90000.0


def set_keras_policy() -> None:
    keras.config.set_dtype_policy("mixed_float16")


def set_tf_keras_policy() -> None:
    tf_keras.mixed_precision.set_global_policy("mixed_float16")


@pytest.mark.parametrize(
    ("prepare", "library"),
    [(set_keras_policy, "keras's mixed_float16"), (set_tf_keras_policy, "tf_keras's mixed_float16")],
)
def test_mixed_keras_policy_is_refused_and_nothing_changes(prepare: Any, library: str) -> None:
    prepare()
    with pytest.raises(ValueError, match=f"The dtype policy {library} is set for all layers"):
        mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=CPU_TOO)
    assert product() == 90000.0


def test_policy_that_does_not_mix_is_fine() -> None:
    keras.config.set_dtype_policy("float64")
    used(mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=CPU_TOO))
    assert product() == float("inf")


def test_policy_set_afterwards_warns_when_the_next_function_is_rewritten() -> None:
    used(mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=CPU_TOO))
    keras.config.set_dtype_policy("mixed_float16")
    with pytest.warns(mixdown.MixdownWarning, match="keras's mixed_float16 was set after mixed precision was enabled"):
        product()


BAD_OPTIMIZERS = {
    "wrapped already": (
        lambda: mixdown.LossScaleOptimizer(keras.optimizers.SGD()),
        ValueError,
        "scales the loss already",
    ),
    "wrapped v1": (
        lambda: mixdown.MixedPrecisionLossScaleOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1), "dynamic"),
        ValueError,
        "already",
    ),
    "a loss scale": (lambda: mixdown.FixedLossScale(8), TypeError, "a LossScale came first"),
    "a class": (lambda: keras.optimizers.SGD, TypeError, "class"),
    "a string": (lambda: "sgd", TypeError, "sgd"),
    "nothing": (lambda: None, TypeError, "None"),
}


@pytest.mark.parametrize("case", BAD_OPTIMIZERS)
def test_bad_optimizer_is_refused_and_nothing_changes(case: str) -> None:
    make, error, message = BAD_OPTIMIZERS[case]
    with pytest.raises(error, match=message):
        mixdown.enable_mixed_precision_graph_rewrite(make(), policy=CPU_TOO)
    assert product() == 90000.0


def test_bad_scale_is_refused_and_nothing_changes() -> None:
    with pytest.raises((TypeError, ValueError)):
        mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), loss_scale=-1, policy=CPU_TOO)
    assert product() == 90000.0


def test_disabling_what_is_not_enabled_is_fine() -> None:
    mixdown.disable_mixed_precision_graph_rewrite()  # a warning would be an error here
    mixdown.disable_mixed_precision_graph_rewrite()
    assert product() == 90000.0


def test_machine_without_an_eligible_device_runs_float32_and_says_which_gate_is_closed() -> None:
    with pytest.warns(mixdown.MixdownWarning, match="there is no GPU. Everything runs in float32") as warned:
        used(mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD()))
    assert sum("there is no GPU" in str(found.message) for found in warned) == 1
    assert product() == 90000.0


def test_refuses_a_tensorflow_that_does_not_take_the_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    from mixdown.tensorflow.calls import call_hook  # noqa: PLC0415 - what the test breaks

    call_hook.uninstall()
    monkeypatch.setattr(call_hook, "_wrap_call", lambda original: original)
    monkeypatch.setattr(call_hook, "_wrap_remove", lambda original: original)
    with pytest.raises(mixdown.MixdownError, match="does not call functions where mixdown expects it"):
        mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=CPU_TOO)
