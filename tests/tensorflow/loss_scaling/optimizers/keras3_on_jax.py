"""The Keras 3 loss-scale optimizer on Keras's JAX backend, in a process of its own; run with KERAS_BACKEND=jax.

Every check is an assertion; the last line printed says that all of them held.
"""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from tests.tensorflow.loss_scaling.optimizers.keras3_training import NAMES, adam, compiled, contents, fit, wrapped

import mixdown
from mixdown.tensorflow.explaining.process_report import scaler_reports


def main() -> None:
    assert keras.backend.backend() == "jax"
    for settings in ({}, {"gradient_accumulation_steps": 2}, {"use_ema": True, "global_clipnorm": 0.01}):
        for jit in (True, False):
            check_fit(settings, jit=jit)
    check_a_skip_changes_no_bit()
    check_stateless()
    check_stateful()
    check_limit()
    check_log()
    check_callback()
    check_saving()
    print("all held on jax")  # noqa: T201 - the answer


def check_fit(settings: dict[str, Any], *, jit: bool) -> None:
    """Bad steps leave nothing in the weights, and are in the books."""
    net, plain = (compiled(each, jit_compile=jit) for each in (wrapped(adam(**settings)), adam(**settings)))
    fit(net, range(8), bad=[1, 4])
    fit(plain, [0, 2, 3, 5, 6, 7])
    pairs = [*zip(net.weights, plain.weights, strict=True)]
    pairs += zip(net.optimizer.inner_optimizer.variables, plain.optimizer.variables, strict=True)
    for ours, theirs in pairs:  # not to the bit: XLA fuses an update in a branch in other ways
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-7)
    assert (net.optimizer.skipped_steps, net.optimizer.last_skipped_step) == (2, 4)
    assert (net.optimizer.loss_scale, net.optimizer.good_steps) == (2.0**13, 3)
    assert net.optimizer.offending_variables == [(name, "NaN") for name in NAMES]
    assert [(each.step, each.scale) for each in net.optimizer.skips] == [(1, 2.0**14), (4, 2.0**13)]
    assert net.optimizer.account().timeline == ((0, 2.0**15), (2, 2.0**14), (5, 2.0**13))


def check_a_skip_changes_no_bit() -> None:
    net = compiled(wrapped(), jit_compile=True)
    fit(net, range(3))
    before = contents([*net.weights, *net.optimizer.inner_optimizer.variables])
    fit(net, [3, 4], bad=[3, 4])
    assert contents([*net.weights, *net.optimizer.inner_optimizer.variables]) == before


def check_stateless() -> None:
    """`stateless_apply` gives new values and leaves the variables alone."""
    weight, optimizer = keras.Variable([0.0]), wrapped(keras.optimizers.SGD(1.0), 4)
    optimizer.build([weight])
    values = [each.value for each in optimizer.variables]
    trained, after_good = optimizer.stateless_apply(values, [ops.array([8.0])], [weight.value])
    kept, after_bad = optimizer.stateless_apply(after_good, [ops.array([np.inf])], trained)
    assert [float(each[0]) for each in (trained[0], kept[0], weight.value)] == [-2.0, -2.0, 0.0]
    for variable, value in zip(optimizer.variables, after_bad, strict=True):
        variable.assign(value)
    assert (optimizer.skipped_steps, optimizer.last_skipped_step) == (1, 1)


def check_stateful() -> None:
    """`apply` works in a plain loop, and the machine keeps its bounds."""
    weight, optimizer = keras.Variable([0.0]), wrapped(keras.optimizers.SGD(1.0), mixdown.DynamicLossScale(4, floor=2))
    for gradient in (np.nan, np.nan, np.nan, 2.0):
        optimizer.apply([ops.array([gradient])], [weight])
    assert (optimizer.loss_scale, weight.numpy().item()) == (2.0, -1.0)


def check_limit() -> None:
    """The limit is heard at the end of `fit`."""
    net = compiled(wrapped(skip_limit=3), jit_compile=True)
    try:
        fit(net, range(6), bad=range(2, 6))
    except mixdown.LossScaleError as error:
        assert "4 steps in a row were skipped" in str(error)  # noqa: PT017 - no pytest here
    else:
        raise AssertionError("no error")


def check_log() -> None:
    """The log names the first eight offenders, and the latest 256 skips."""
    weights, optimizer = [keras.Variable(0.0, name=f"w{at}") for at in range(10)], wrapped(skip_limit=999)
    optimizer.build(weights)
    for number in range(300):
        held = [np.inf if at == 1 else 1.0 if number % 2 else np.nan for at in range(10)]
        optimizer.apply([ops.array(each) for each in held], weights)
    assert [each.step for each in optimizer.skips] == list(range(44, 300))
    assert optimizer.skips[-1].offenders == [("w1", "Inf")]
    names = [f"w{at}" for at in range(8)]
    assert optimizer.skips[-2].offenders == [(name, "Inf" if name == "w1" else "NaN") for name in names]


def check_callback() -> None:
    """The history tells of every skip."""
    x = np.ones([12, 4], "float32")
    x[[3, 9]] = np.nan
    net, callback = compiled(wrapped(), jit_compile=True), mixdown.keras.MixedPrecisionCallback()
    history = net.fit(x, x[:, :1] * 0, batch_size=2, epochs=2, shuffle=False, verbose=0, callbacks=[callback])
    assert history.history["skipped_steps"] == [2, 4]
    assert [[step for step, _ in epoch] for epoch in history.history["skips"]] == [[1, 4], [7, 10]]
    assert [each.skipped_steps for each in scaler_reports() if each.steps == 12] == [4]


def check_saving() -> None:
    """Everything comes back from a Keras file."""
    net = compiled(wrapped(), jit_compile=True)
    fit(net, range(4), bad=[2])
    with tempfile.TemporaryDirectory() as folder:
        net.save(Path(folder) / "net.keras")
        again = keras.models.load_model(Path(folder) / "net.keras")
    assert contents(again.optimizer.variables) == contents(net.optimizer.variables)
    fit(net, range(4, 6))
    fit(again, range(4, 6))
    assert contents(again.weights) == contents(net.weights)


if __name__ == "__main__":
    main()
