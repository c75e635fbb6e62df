"""What people write by mistake: accepted where it is clear what they mean, else refused in a sentence that helps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import mixdown
from mixdown.tensorflow.calls import active_policy

LARGE = tf.constant([[300.0]])
EVERYWHERE = mixdown.Policy(devices="all")


def product() -> Any:
    """300 * 300: 90000 in float32, but not in 16 bits."""
    return tf.function(tf.matmul)(LARGE, LARGE)[0, 0]


WRONG: Any = "mixed_float16"
WRONG_TOO: Any = "mixed_bfloat16"
THREE: Any = 3
DEVICES: Any = ["gpu", "cpu"]
KERAS_POLICY = (
    "policy='mixed_float16' is of type str. That is a dtype policy of Keras; here, write "
    "policy=mixdown.Policy(low='float16')."
)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "enable": (
        lambda: mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=WRONG),
        KERAS_POLICY,
    ),
    "rewriting": (lambda: mixdown.rewriting(WRONG).__enter__(), KERAS_POLICY),
    "rewrite": (lambda: mixdown.rewrite(WRONG), KERAS_POLICY),
    "explain": (lambda: mixdown.explain(product, policy=WRONG), KERAS_POLICY),
    "convert": (lambda: mixdown.convert_saved_model("a", "b", WRONG), KERAS_POLICY),
    "bisect": (lambda: mixdown.bisect(product, [()], 0.1, policy=WRONG), KERAS_POLICY),
    "a policy of bfloat16": (
        lambda: mixdown.rewrite(WRONG_TOO),
        "mixdown.Policy(low='bfloat16')",
    ),
    "no policy at all": (
        lambda: mixdown.rewrite(THREE),
        "policy=3 is of type int. Pass a mixdown.Policy, or nothing for the default one.",
    ),
    "a path": (
        lambda: mixdown.rewrite_graph_def("frozen.pb", ["y"]),
        "takes a GraphDef, not the path 'frozen.pb'. To rewrite a file, call mixdown.convert_saved_model('frozen.pb', ",
    ),
    "another kind of path": (lambda: mixdown.rewrite_graph_def(Path("frozen.pb"), ["y"]), "not the path 'frozen.pb'"),
    "a graph": (
        lambda: mixdown.rewrite_graph_def(tf.Graph(), ["y"]),
        "rewrite_graph_def takes a GraphDef, not a Graph. Pass its as_graph_def().",
    ),
    "a function": (lambda: mixdown.rewrite_graph_def(product, ["y"]), "takes a GraphDef, not a function."),
    "a layer for a kind": (
        lambda: mixdown.Policy().with_keep(keras.layers.Dense(1, name="head")),
        "not the Dense 'head'. For the ops of a layer, write layer='head'.",
    ),
    "a class of layers": (lambda: mixdown.Policy().with_keep(keras.layers.Dense), "not the class Dense."),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_in_a_sentence_and_changes_nothing(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, message = REFUSED[case]
    put_in_force: list[Any] = []
    monkeypatch.setattr(active_policy, "set_process_policy", put_in_force.append)
    with pytest.raises(mixdown.MixdownError) as refused:
        make()
    assert message in str(refused.value)
    assert put_in_force == []
    assert float(product()) == 90000.0


@pytest.mark.parametrize("low", [tf.float16, tf.bfloat16, "fp16", "half", "bf16"])
def test_a_dtype_may_be_an_object_of_tensorflow_or_a_short_name(low: Any) -> None:
    with mixdown.rewriting(mixdown.Policy(low=low, devices=DEVICES)):
        assert float(product()) != 90000.0


def test_a_decorator_without_brackets_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixdown.tensorflow.enable.Policy", lambda: EVERYWHERE)  # the default one needs a GPU

    @mixdown.rewrite
    def step() -> Any:
        return product()

    assert step.__name__ == "step"
    assert float(step()) == float("inf")
    assert float(product()) == 90000.0
