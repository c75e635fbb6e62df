"""What `fit` tells of loss scaling through the callback: in its history and in an event file."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tests.tensorflow.loss_scaling.event_files import events_in, under

import mixdown
from mixdown.reports import Report
from mixdown.reports.model import Totals

EPOCHS, BATCHES = 3, 10
BAD = (2, 3, 14, 29)
LAW: dict[str, Any] = {"initial_loss_scale": 64.0, "increment_period": 5}
TIMELINE = [(0, 64.0), (2 + 1, 32.0), (3 + 1, 16.0), (9, 32.0), (14, 64.0), (15, 32.0), (20, 64.0), (25, 128.0)]


def data() -> tuple[Any, Any]:
    x = np.random.default_rng(0).normal(size=(EPOCHS * BATCHES, 4)).astype("float32")
    x[list(BAD)] = np.nan
    return x, np.ones([EPOCHS * BATCHES, 1], "float32")


def model(library: Any) -> Any:
    layers = [library.layers.Input([4]), library.layers.Dense(3, name="first"), library.layers.Dense(1, name="last")]
    return library.Sequential(layers, name="net")


CALLBACKS = {
    keras: mixdown.keras.MixedPrecisionCallback,
    tf_keras: mixdown.tf_keras.TfKerasMixedPrecisionCallback,
}
LIBRARIES = {
    "keras 3": (keras, keras.optimizers.SGD, "net/first/kernel"),
    "tf_keras": (tf_keras, tf_keras.optimizers.SGD, "first/kernel:0"),
    "legacy": (tf_keras, tf_keras.optimizers.legacy.SGD, "first/kernel:0"),
}


def callback_for(host: str, **arguments: Any) -> Any:
    return CALLBACKS[LIBRARIES[host][0]](**arguments)


def trained(host: str, callback: Any, *, epochs: int = EPOCHS, jit: bool = False) -> Any:
    """A model after `fit` on thirty batches of one example, and the history."""
    library, optimizer, _ = LIBRARIES[host]
    net = model(library)
    net.compile(mixdown.LossScaleOptimizer(optimizer(0.01), mixdown.DynamicLossScale(**LAW)), "mse", jit_compile=jit)
    batches = tf.data.Dataset.from_tensor_slices(data()).batch(1).repeat()
    return net, net.fit(batches, epochs=epochs, steps_per_epoch=BATCHES, shuffle=False, verbose=0, callbacks=[callback])


@pytest.mark.parametrize(("host", "jit"), [*((host, False) for host in LIBRARIES), ("keras 3", True)])
def test_the_history_has_every_skip_in_its_epoch(host: str, *, jit: bool) -> None:
    _, history = trained(host, callback_for(host), jit=jit)
    assert history.history["loss_scale"] == [32.0, 64.0, 64.0]
    assert history.history["skipped_steps"] == [2, 3, 4]
    steps = [[step for step, _ in epoch] for epoch in history.history["skips"]]
    assert steps == [[2, 3], [14], [29]]
    first = LIBRARIES[host][2]
    assert all(found[0] == (first, "NaN") for epoch in history.history["skips"] for _, found in epoch)
    json.dumps(history.history["skips"])


@pytest.mark.parametrize("host", LIBRARIES)
def test_the_event_file_has_every_change_and_every_skip_at_its_step(host: str, tmp_path: Path) -> None:
    trained(host, callback_for(host, log_dir=tmp_path))
    found = events_in(tmp_path)
    ends = [(10, 32.0), (20, 64.0), (30, 64.0)]
    changes = sorted({*under("mixdown/loss_scale", found)} - {(10, 32.0)})
    assert changes == sorted({*TIMELINE, (29 + 1, 64.0), *ends} - {(10, 32.0)})
    skips = [(2, 1), (3, 2), (10, 2), (14, 3), (20, 3), (29, 4), (30, 4)]
    assert under("mixdown/skipped_steps", found) == skips
    assert [step for step, _ in under("mixdown/skips", found)] == list(BAD)
    assert all(words.startswith(f"{LIBRARIES[host][2]} (NaN)") for _, words in under("mixdown/skips", found))
    ((step, summary),) = under("mixdown/summary", found)
    assert step == EPOCHS * BATCHES
    assert "Mixed precision in this process" in summary


def test_a_second_fit_tells_only_what_is_new(tmp_path: Path) -> None:
    net, _ = trained("keras 3", mixdown.keras.MixedPrecisionCallback(), epochs=2)
    batches = tf.data.Dataset.from_tensor_slices(data()).batch(1).skip(20)
    callback = mixdown.keras.MixedPrecisionCallback(tmp_path)
    history = net.fit(batches, shuffle=False, verbose=0, callbacks=[callback])
    assert history.history["skipped_steps"] == [4]
    assert [[step for step, _ in epoch] for epoch in history.history["skips"]] == [[29]]
    found = events_in(tmp_path)
    assert [step for step, _ in under("mixdown/skips", found)] == [29]
    assert min(step for _, step, _ in found) == 20


def test_the_shares_of_work_in_16_bits_are_those_of_the_report(tmp_path: Path) -> None:
    net, others = model(keras), list(mixdown.report().graphs)  # of functions that other tests have called
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(
        keras.optimizers.SGD(0.01), policy=mixdown.Policy(devices="all")
    )
    try:
        net.compile(optimizer, "mse", jit_compile=False)
        net.fit(*data(), batch_size=10, verbose=0, callbacks=[mixdown.keras.MixedPrecisionCallback(tmp_path)])
        graphs = mixdown.report().graphs
    finally:
        mixdown.disable_mixed_precision_graph_rewrite()
    totals = sum((graph.totals for graph in graphs), Totals())
    moved = sum(graph.effort.bytes for graph in graphs)
    for tag, share in (
        ("matrix_arithmetic_in_16_bits", totals.low_flops / totals.flops),
        ("bytes_against_float32", moved / totals.float32_bytes),
        ("ops_in_16_bits", totals.low_ops / totals.ops),
    ):
        ((step, written),) = under(f"mixdown/{tag}", events_in(tmp_path))
        assert (step, written) == (3, pytest.approx(share))
    own = list(graphs)
    for graph in others:
        if graph in own:
            own.remove(graph)
    of_the_model = sum((graph.totals for graph in own), Totals())
    assert of_the_model.low_flops == of_the_model.flops > 0


def test_a_bare_optimizer_has_no_scale_to_tell_of(tmp_path: Path) -> None:
    net = model(keras)
    net.compile("sgd", "mse")
    history = net.fit(
        *data(), batch_size=10, epochs=2, verbose=0, callbacks=[mixdown.keras.MixedPrecisionCallback(tmp_path)]
    )
    assert set(history.history) == {"loss"}
    assert [(tag, step) for tag, step, _ in events_in(tmp_path)][-1] == ("mixdown/summary", 6)


@pytest.mark.parametrize("library", CALLBACKS, ids=lambda library: library.__name__)
def test_each_library_has_a_plain_callback_class(library: Any) -> None:
    assert issubclass(CALLBACKS[library], library.callbacks.Callback)
    assert type(CALLBACKS[library]("somewhere")) is CALLBACKS[library]


def test_report_json_history_and_event_file_tell_of_the_same_skips(tmp_path: Path) -> None:
    net, history = trained("keras 3", mixdown.keras.MixedPrecisionCallback(tmp_path))
    name = net.optimizer.inner_optimizer.name = f"told-{tmp_path.name}"
    report = mixdown.report()
    (told,) = [each for each in report.scalers if each.name == name]
    (again,) = [each for each in Report.from_json(report.to_json()).scalers if each.name == name]
    assert told == again
    assert (told.steps, told.skipped_steps) == (EPOCHS * BATCHES, len(BAD))
    skips = [(each.step, list(each.variables)) for each in told.skips]
    assert [step for step, _ in skips] == list(BAD)
    assert [each for epoch in history.history["skips"] for each in epoch] == skips
    written = under("mixdown/skips", events_in(tmp_path))
    assert written == [(step, ", ".join(f"{who} ({held})" for who, held in found)) for step, found in skips]
    assert set(told.timeline) <= set(under("mixdown/loss_scale", events_in(tmp_path)))
