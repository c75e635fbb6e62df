"""Keras `fit` on JAX with the one line, where TensorFlow is not installed; run in a process of its own.

Every check is an assertion; the last line printed says that all of them held.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"
sys.modules["tensorflow"] = None  # type: ignore[assignment]  # from here on it cannot be imported

import keras  # noqa: E402 - after its backend is chosen
import numpy as np  # noqa: E402 - as above

import mixdown  # noqa: E402 - as above

FLOAT16 = mixdown.Policy(low="float16", devices="all")
rng = np.random.default_rng(0)
X = rng.normal(size=(64, 16)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")


def model(optimizer: Any) -> Any:
    keras.utils.set_random_seed(1)
    layers = [keras.Input([16]), keras.layers.Dense(32, "relu", name="first"), keras.layers.Dense(1, name="last")]
    net = keras.Sequential(layers, name="net")
    net.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True))
    return net


def trained(optimizer: Any, x: Any = X, epochs: int = 3) -> tuple[Any, list[Any]]:
    """A model after `fit`, and its weights."""
    net = model(optimizer)
    net.fit(x, Y, batch_size=16, epochs=epochs, shuffle=False, verbose=0)
    return net, [weight.numpy() for weight in net.weights]


def check_fit_and_disable() -> None:
    """Products run in 16 bits while it is enabled; afterwards all is as before, bit for bit."""
    _, before = trained(keras.optimizers.Adam(0.01))
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.Adam(0.01), policy=FLOAT16)
    net, mixed = trained(optimizer)
    (step,) = [graph for graph in mixdown.report().graphs if len(graph.ops) > 50]
    assert {op.kind for op in step.low_ops} >= {"dot_general"}
    assert {op.sites[0].dtype for op in step.ops if op.name.startswith("adam")} == {"float32"}
    assert all(weight.dtype == np.float32 for weight in mixed)
    assert any((one != other).any() for one, other in zip(before, mixed, strict=True))
    for one, other in zip(before, mixed, strict=True):
        np.testing.assert_allclose(one, other, atol=0.02)
    assert (optimizer.steps, optimizer.skipped_steps, optimizer.loss_scale) == (12, 0, 2.0**15)
    assert mixdown.report().scalers[-1].name == net.optimizer.inner_optimizer.name
    mixdown.disable_mixed_precision_graph_rewrite()
    _, after = trained(keras.optimizers.Adam(0.01))
    assert [weight.tobytes() for weight in after] == [weight.tobytes() for weight in before]


def check_a_bad_batch_is_skipped() -> None:
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.Adam(0.01), policy=FLOAT16)
    bad = X.copy()
    bad[20, 3] = np.inf  # the second batch
    net, _ = trained(optimizer, bad, epochs=1)
    assert (optimizer.steps, optimizer.skipped_steps, optimizer.last_skipped_step) == (4, 1, 1)
    assert int(optimizer.iterations.numpy()) == 3
    assert optimizer.loss_scale == 2.0**14
    assert ("net/first/kernel", "NaN") in optimizer.offending_variables
    assert all(np.isfinite(weight.numpy()).all() for weight in net.weights)
    mixdown.disable_mixed_precision_graph_rewrite()


def check_saving_and_the_callback() -> None:
    optimizer = mixdown.LossScaleOptimizer(keras.optimizers.SGD(0.01))
    net, callback = model(optimizer), mixdown.keras.MixedPrecisionCallback()
    history = net.fit(X, Y, batch_size=16, epochs=2, verbose=0, callbacks=[callback])
    assert history.history["loss_scale"] == [2.0**15] * 2
    with tempfile.TemporaryDirectory() as folder:
        net.save(Path(folder) / "net.keras")
        again = keras.models.load_model(Path(folder) / "net.keras")
    assert type(again.optimizer).__name__ == "Keras3LossScaleOptimizer"
    assert again.optimizer.account() == optimizer.account()
    try:
        model(optimizer).fit(X, Y, verbose=0, callbacks=[mixdown.keras.MixedPrecisionCallback("logs")])
    except ImportError as error:
        assert str(error) == "mixdown.tensorflow needs TensorFlow: pip install 'mixdown[tensorflow]'"  # noqa: PT017 - no pytest here
    else:
        raise AssertionError("no error")


IDLE = (
    "The rule layer='lst' of the policy has no effect in train_step: in a whole training step it matched no float32 "
    "op. A layer of a similar name: last. Write layer='last'."
)


def check_layer_rules() -> None:
    """A rule finds the ops of a layer, gradients too; one that finds nothing is told while the step is compiled."""
    layer = model(keras.optimizers.SGD()).get_layer("last")
    for name, kept in ((layer, {"float32"}), ("lst", {"float16"})):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always", mixdown.MixdownWarning)
            policy = FLOAT16.with_keep(layer=name)
            trained(mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=policy), epochs=1)
        mixdown.disable_mixed_precision_graph_rewrite()
        products = [op for op in mixdown.report().graphs[-1].ops if op.kind == "dot_general"]
        assert {op.sites[0].dtype for op in products if "last" in op.name} == kept
        assert {op.sites[0].dtype for op in products if "first" in op.name} == {"float16"}
        said = [str(each.message) for each in given]
        assert said == ([] if name is layer else [IDLE]), said


def check_refusals() -> None:
    """What cannot be done is refused, with the way out."""
    keras.config.set_dtype_policy("mixed_float16")
    refused(
        lambda: mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD()), "keras's mixed_float16 is set"
    )
    keras.config.set_dtype_policy("float32")
    twice = mixdown.LossScaleOptimizer(keras.optimizers.SGD())
    refused(lambda: mixdown.LossScaleOptimizer(twice), "which scales the loss already")
    refused(lambda: mixdown.LossScaleOptimizer(keras.optimizers.SGD(), "fixed"), "got 'fixed'")
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        mixdown.disable_mixed_precision_graph_rewrite()
    assert [str(each.message) for each in given] == []


def refused(call: Any, part: str) -> None:
    try:
        call()
    except ValueError as error:
        assert part in str(error), error  # noqa: PT017 - no pytest here
    else:
        raise AssertionError(part)


if __name__ == "__main__":
    check_fit_and_disable()
    check_a_bad_batch_is_skipped()
    check_saving_and_the_callback()
    check_layer_rules()
    check_refusals()
    assert sys.modules["tensorflow"] is None
    print("all held on jax")  # noqa: T201 - the answer
