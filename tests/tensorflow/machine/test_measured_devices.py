"""`Policy(devices="measured")` and `mixdown doctor --measure`: what is timed, where it is stored, what follows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import keras
import pytest
import tensorflow as tf
from tests.core.pricing.test_measured import machine

import mixdown
from mixdown.cli import main
from mixdown.core.pricing.measured import FAMILIES, MODES, wanted
from mixdown.errors import MeasurementError
from mixdown.tensorflow.explaining.subjects import planned_graphs
from mixdown.tensorflow.machine import measure, measurements

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POLICY = mixdown.Policy(devices="measured", low="bfloat16")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for measurements."""
    monkeypatch.setenv(measurements.VARIABLE, str(tmp_path))
    return tmp_path


def chain() -> tuple[Callable[[Any], Any], Any]:
    """A function of four matrix products, and what to call it with."""

    @tf.function
    def products(x: Any) -> Any:
        for _ in range(4):
            x = tf.linalg.matmul(x, tf.ones([256, 256]) / 256)
        return x

    return products, tf.constant(1 + 2**-12, shape=[256, 256])


def low_products(policy: mixdown.Policy) -> int:
    """How many of the products would be low, by the protos that would be run."""
    function, x = chain()
    protos = planned_graphs(function, policy, [x])[0].protos
    nodes = [node for proto in protos for node in proto.node_def if node.op == "MatMul"]
    return sum(node.attr["T"].type == tf.bfloat16.as_datatype_enum for node in nodes)


def test_products_that_were_measured_to_gain_are_low() -> None:
    measurements.store({"CPU": machine(product=0.5)})
    assert low_products(POLICY) == 4
    function, x = chain()
    with mixdown.rewriting(POLICY):
        mixed = function(x)
    assert mixed.numpy()[0, 0] == 1  # 1 + 2^-12 is no bfloat16
    assert function(x).numpy()[0, 0] > 1


def test_products_that_were_measured_to_lose_stay_float32_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    measurements.store({"CPU": machine(product=1.5)})
    assert low_products(POLICY) == 0
    function, x = chain()
    with mixdown.rewriting(POLICY), caplog.at_level("INFO", "mixdown"):
        assert function(x).numpy()[0, 0] > 1
    assert "it would not gain enough by bfloat16, predicted from the measurement of M1" in caplog.text


def test_a_new_measurement_counts_from_then_on() -> None:
    measurements.store({"CPU": machine(product=1.5)})
    assert low_products(POLICY) == 0
    measurements.store({"CPU": machine(product=0.5)})
    assert low_products(POLICY) == 4


def test_where_nothing_was_measured_nothing_is_low_and_the_warning_says_what_to_run() -> None:
    assert low_products(POLICY) == 0
    function, x = chain()
    assert "MatMul) is float32: it runs on a CPU, which was not measured" in mixdown.explain(
        function, x, policy=POLICY
    ).why("MatMul")
    with pytest.warns(mixdown.MixdownWarning, match="CPU of this machine was not measured yet. Run `mixdown doctor"):
        scaled = mixdown.enable_mixed_precision_graph_rewrite(keras.optimizers.SGD(), policy=POLICY)
    scaled.usage.note_scaled()  # it is not to be missed when the test throws it away
    mixdown.disable_mixed_precision_graph_rewrite()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be used: Expecting property name"),
        ("[]", "cannot be used: list indices"),
        ('{"schema": "x/1"}', "cannot be used: it is 'x/1', not 'mixdown-measured/1'"),
        ('{"schema": "mixdown-measured/1", "devices": {"CPU": {}}}', "cannot be used: This is no measurement"),
        ("[" * 100_000, "cannot be used: "),
        (" " * 1_000_001, "cannot be used: it has more than 1000000 bytes"),
    ],
)
def test_a_broken_file_is_refused_and_the_way_out_told(content: str, message: str) -> None:
    measurements.place().write_text(content)
    with pytest.raises(MeasurementError) as caught:
        measurements.measured("CPU")
    assert message in str(caught.value)
    assert "Measure again with `mixdown doctor --measure`." in str(caught.value)


@pytest.mark.slow
def test_doctor_measures_every_family_on_every_device_and_stores_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "RUNS", 1)
    monkeypatch.setattr(measure, "MANY", 2)
    small = {name: (make, sizes[:1]) for name, (make, sizes) in measure.TRIALS.items()}
    monkeypatch.setattr(measure, "TRIALS", small)
    main(["doctor", "--measure", "--json", "--devices", "measured"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    (stored,) = folder.iterdir()
    found = measurements.measured("CPU")
    assert found is not None
    assert found.samples.keys() == wanted()
    assert stored == measurements.place()
    assert [each["state"] for each in findings if each["subject"].startswith(("gate", "speed of CPU"))] == ["ok", "ok"]


def test_doctor_says_what_was_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--devices", "measured"])
    told = capsys.readouterr().out
    assert "was not measured\n       mixdown doctor --measure" in told
    assert "!!   gate: closed: the CPU of this machine was not measured yet\n       mixdown doctor --measure" in told


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mode", MODES)
def test_a_trial_runs_in_every_mode_and_grows_with_its_size(family: str, mode: str) -> None:
    make, sizes = measure.TRIALS[family]
    small, large = make(sizes[0]), make(sizes[-1])
    assert small.amount < large.amount
    shapes = [tf.random.uniform(shape) for shape in small.shapes]
    outputs = tf.nest.flatten(tf.function(small.run, jit_compile=mode == "jit")(*shapes))
    assert all(tf.reduce_all(tf.math.is_finite(tf.cast(each, tf.float32))) for each in outputs)
