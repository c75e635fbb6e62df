"""`mixdown.unwrap`: the plain model inside, with its state, of both Keras libraries."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tf_keras

import mixdown

OPTIMIZERS = {
    "keras": lambda: keras.optimizers.Adam(0.01),
    "tf_keras": lambda: tf_keras.optimizers.Adam(0.01),
    "legacy": lambda: tf_keras.optimizers.legacy.Adam(0.01),
}
X = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
Y = X[:, :1] - X[:, 1:2]


def own_loss(truth: Any, found: Any) -> Any:
    return (truth - found) ** 2


def trained(kind: str, *, wrap: bool) -> Any:
    """A model that was trained a little, with a loss that no configuration can describe."""
    library = keras if kind == "keras" else tf_keras
    library.utils.set_random_seed(1)
    layers = library.layers
    model = library.Sequential([layers.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
    optimizer = OPTIMIZERS[kind]()
    model.compile(mixdown.LossScaleOptimizer(optimizer) if wrap else optimizer, own_loss, metrics=["mae"])
    model.fit(X, Y, epochs=3, shuffle=False, verbose=0)
    return model


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_training_goes_on_bit_for_bit_as_if_it_had_never_been_wrapped(kind: str) -> None:
    plain, wrapped = trained(kind, wrap=False), trained(kind, wrap=True)
    inner = wrapped.optimizer.inner_optimizer
    unwrapped = mixdown.unwrap(wrapped)
    assert unwrapped is wrapped
    assert unwrapped.optimizer is inner
    assert int(inner.iterations) == 3
    for model in (plain, unwrapped):
        model.fit(X, Y, epochs=2, shuffle=False, verbose=0)
    for ours, theirs in zip(unwrapped.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert unwrapped.evaluate(X, Y, verbose=0, return_dict=True).keys() == {"loss", "mae"}


def test_what_is_saved_afterwards_names_nothing_of_mixdowns(tmp_path: Path) -> None:
    model = trained("keras", wrap=True)
    model.compile(model.optimizer, "mse")
    path = tmp_path / "plain.keras"
    mixdown.unwrap(model).save(path)
    assert b"mixdown" not in path.read_bytes()
    again = keras.models.load_model(path)
    assert type(again.optimizer) is keras.optimizers.Adam
    assert int(again.optimizer.iterations) == 3


def test_a_model_with_a_compile_of_its_own_keeps_what_it_has_set() -> None:
    class Scored(keras.Sequential):
        def compile(self, optimizer: Any, scores: Any) -> None:
            super().compile(optimizer, "mse")
            self.scores = scores

    model = Scored([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(mixdown.LossScaleOptimizer(keras.optimizers.SGD()), scores=[1, 2])
    mixdown.unwrap(model).fit(X, Y, verbose=0)
    assert (type(model.optimizer), list(model.scores)) == (keras.optimizers.SGD, [1, 2])


@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD(), None])
def test_a_plain_model_stays_as_it_is(optimizer: Any) -> None:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    if optimizer is not None:
        model.compile(optimizer, "mse")
    assert mixdown.unwrap(model) is model
    assert getattr(model, "optimizer", None) is optimizer


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: "model.keras", "unwrap takes a model of Keras 3 or tf_keras, got a str."),
        (
            lambda: mixdown.LossScaleOptimizer(keras.optimizers.SGD()),
            "got a Keras3LossScaleOptimizer. Its inner_optimizer is the plain one.",
        ),
    ],
)
def test_what_is_no_model_is_refused(given: Any, message: str) -> None:
    with pytest.raises(TypeError) as refused:
        mixdown.unwrap(given())
    assert message in str(refused.value)
