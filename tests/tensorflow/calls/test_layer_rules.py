"""Rules that name layers: `layer=` finds a layer's ops on every host, and a rule that finds nothing says so once."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tests import fresh

import mixdown
from mixdown.core import Paint
from mixdown.tensorflow.calls import active_policy

EVERYWHERE = mixdown.Policy(devices="all")
X, Y = np.ones((8, 4), "float32"), np.ones((8, 2), "float32")
LIBRARIES = [keras, tf_keras]


def network(library: Any) -> Any:
    """Two layers that the library names itself, and a head."""
    library.backend.clear_session()  # so that the first of them is called `dense`
    dense = library.layers.Dense
    return library.Sequential(
        [library.layers.Input((4,)), dense(4), dense(4, activation="relu"), dense(2, name="head")]
    )


def trained(library: Any, model: Any, policy: mixdown.Policy, **options: Any) -> None:
    model.compile(mixdown.LossScaleOptimizer(library.optimizers.SGD()), "mse", **options)
    with mixdown.rewriting(policy):
        model.fit(X, Y, batch_size=4, verbose=0)


def products(policy: mixdown.Policy) -> dict[str, bool]:
    """Every matrix product of the functions that ran under a policy, and whether it ran in 16 bits."""
    plans = [twin.plan for _, _, twin in active_policy.twins_for(policy).made() if twin.plan]
    return {
        op.name: any(plan.paints[site] is Paint.LOW for site in op.sites)
        for plan in plans
        for op in plan.graph.ops
        if op.kind == "MatMul"
    }


def kept_layers(policy: mixdown.Policy) -> set[str]:
    """The layers, by the order of their scopes, of which every product ran in float32, gradients included."""
    low: dict[str, set[bool]] = {}
    for name, is_low in products(policy).items():
        scope = name.removeprefix("gradient_tape/").split("/")[1]
        low.setdefault(scope, set()).add(is_low)
    assert all(len(each) == 1 for each in low.values()), low
    return {
        layer for layer, scope in zip(("dense", "dense_1", "head"), sorted(low), strict=True) if low[scope] == {False}
    }


@pytest.mark.parametrize("layer", ["dense", "dense_1", "head"])
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_a_layer_is_kept_with_its_gradients(library: Any, layer: str) -> None:
    policy = EVERYWHERE.with_keep(layer=layer).with_custom(library.__name__)  # equal policies share what they saw
    trained(library, network(library), policy)
    assert kept_layers(policy) == {layer}


def test_a_layer_object_and_compiled_code_are_the_same() -> None:
    model = network(keras)
    policy = EVERYWHERE.with_deny("MatMul", layer=model.layers[-1])
    trained(keras, model, policy, jit_compile=True)
    assert kept_layers(policy) == {"head"}


def misnamed(policy: mixdown.Policy) -> None:
    trained(keras, network(keras), policy)


def in_a_function(policy: mixdown.Policy) -> None:
    weights = tf.Variable(tf.ones([4, 4]))

    @mixdown.rewrite(policy)
    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape, tf.name_scope("head"):
            loss = tf.reduce_sum(tf.ones([4, 4]) @ weights)
        weights.assign_sub(tape.gradient(loss, weights))

    step()
    step()


def in_a_session(policy: mixdown.Policy) -> None:
    with tf.Graph().as_default(), mixdown.rewriting(policy):
        with tf.compat.v1.variable_scope("head"):
            weights = tf.compat.v1.get_variable("w", [4, 4])
            loss = tf.reduce_sum(tf.ones([4, 4]) @ weights)
        train = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(train)


def said(run: Callable[[mixdown.Policy], None], policy: mixdown.Policy) -> list[str]:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", mixdown.MixdownWarning)
        run(policy)
    return [str(each.message) for each in given if issubclass(each.category, mixdown.MixdownWarning)]


RUNS = [misnamed, in_a_function, in_a_session]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_a_rule_that_matches_nothing_is_told_once_with_the_nearest_layer(run: Callable[[mixdown.Policy], None]) -> None:
    (warning,) = said(run, EVERYWHERE.with_keep(layer="haed").with_custom(run.__name__))
    assert warning == (
        "The rule layer='haed' of the policy has no effect: in a whole training step it matched no float32 op. "
        "A layer of a similar name: head. Write layer='head'."
    )


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_a_rule_that_matches_is_not_told(run: Callable[[mixdown.Policy], None]) -> None:
    assert said(run, EVERYWHERE.with_keep("MatMul", layer="head").with_custom(run.__name__)) == []


@pytest.mark.parametrize("selector", [{"scope": "head"}, {"name": "head/.*"}])
def test_scopes_that_keras_3_renumbers_are_told(selector: dict[str, str]) -> None:
    (warning,) = said(misnamed, EVERYWHERE.with_keep(**selector))
    assert warning.endswith("A layer of a similar name: head. Write layer='head'.")


def test_a_rule_may_match_in_another_function_of_the_step() -> None:
    policy = EVERYWHERE.with_keep(layer="second")

    def function(layer: str) -> Any:
        weights = tf.Variable(tf.ones([4, 4]))

        def step() -> Any:
            with tf.GradientTape() as tape, tf.name_scope(layer):
                loss = tf.reduce_sum(tf.ones([4, 4]) @ weights)
            return tape.gradient(loss, weights)

        return tf.function(step)

    def run(policy: mixdown.Policy) -> None:
        first, second = function("first"), function("second")
        with mixdown.rewriting(policy):
            for _ in range(3):
                first()
                second()

    assert said(run, policy) == []


ONE_STEP = """
import numpy as np, keras, mixdown
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2, name="head")])
policy = mixdown.Policy(devices="all").with_keep(layer="haed")
model.compile(mixdown.LossScaleOptimizer(keras.optimizers.SGD()), "mse")
with mixdown.rewriting(policy):
    model.fit(np.ones([4, 4]), np.ones([4, 2]), verbose=0)
print("trained")
"""


def test_a_program_of_one_step_is_told_at_its_end() -> None:
    done = subprocess.run([*fresh.python(), "-c", ONE_STEP], capture_output=True, text=True, check=True, timeout=300)  # noqa: S603 - our own
    assert done.stdout == "trained\n"
    assert done.stderr.count("The rule layer='haed' of the policy has no effect") == 1
