"""What the process tells of its loss scales: every wrapped optimizer that lives, with exactly the steps it skipped."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf
import tf_keras

import mixdown
from mixdown import messages
from mixdown.reports.model import ScalerReport, Skip
from mixdown.scaling import step_record
from mixdown.tensorflow.explaining import process_report as told

NAN, INF = float("nan"), float("inf")
STEPS, BAD = 40, {3: (1.0, NAN), 4: (-INF, 1.0), 17: (INF, NAN), 39: (NAN, NAN)}
v1 = tf.compat.v1
Step = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def only_mine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimizers of other tests are not this one's."""
    monkeypatch.setattr(step_record, "_alive", type(step_record._alive)())


def by_keras3(how: str) -> Step:
    optimizer = mixdown.LossScaleOptimizer(keras.optimizers.SGD(name="mine"), mixdown.DynamicLossScale(1024.0, 10))
    variables = [keras.Variable([1.0], name=name) for name in "ab"]
    optimizer.build(variables)

    def step(*gradients: Any) -> None:
        optimizer.scale_loss(1.0)
        optimizer.apply([each * optimizer.dynamic_scale for each in gradients], variables)

    return lifted(step, how)


def by_tf_keras(namespace: Any) -> Callable[[str], Step]:
    def make(how: str) -> Step:
        optimizer = mixdown.LossScaleOptimizer(namespace.SGD(name="mine"), mixdown.DynamicLossScale(1024.0, 10))
        variables = [tf.Variable([1.0], name=name) for name in "ab"]

        def step(*gradients: Any) -> None:
            optimizer.get_scaled_loss(tf.constant(1.0))
            unscaled = optimizer.get_unscaled_gradients([each * optimizer.loss_scale for each in gradients])
            optimizer.apply_gradients(zip(unscaled, variables, strict=True))

        return lifted(step, how)

    return make


def by_v1(how: str) -> Step:
    optimizer = mixdown.MixedPrecisionLossScaleOptimizer(
        v1.train.GradientDescentOptimizer(0.1, name="mine"), mixdown.DynamicLossScale(1024.0, 10)
    )
    optimizer.usage.note_scaled()
    variables = [tf.Variable([1.0], name=name) for name in "ab"]
    return lifted(lambda *gradients: optimizer.apply_gradients(zip(gradients, variables, strict=True)), how)


def lifted(step: Step, how: str) -> Step:
    return step if how == "eager" else tf.function(lambda *each: [step(*each), 0][1:], jit_compile=how == "xla")


HOSTS = {
    "keras 3": by_keras3,
    "tf_keras": by_tf_keras(tf_keras.optimizers),
    "legacy": by_tf_keras(tf_keras.optimizers.legacy),
    "v1": by_v1,
}


def gradients() -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    for number in range(STEPS):
        a, b = BAD.get(number, (1.0, 1.0))
        yield tf.constant([a]), tf.constant([b])


def expected(suffix: str) -> ScalerReport:
    a, b = f"a{suffix}", f"b{suffix}"
    skips = (
        Skip(3, ((b, "NaN"),)),
        Skip(4, ((a, "Inf"),)),
        Skip(17, ((a, "Inf"), (b, "NaN"))),
        Skip(39, ((a, "NaN"), (b, "NaN"))),
    )
    timeline = ((0, 1024.0), (4, 512.0), (5, 256.0), (15, 512.0), (18, 256.0), (28, 512.0), (38, 1024.0), (40, 512.0))
    return ScalerReport("mine", 512.0, STEPS, len(BAD), timeline, skips)


@pytest.mark.parametrize("how", ["eager", "graph", "xla"])
@pytest.mark.parametrize("host", HOSTS)
def test_skips_are_reported_with_their_steps_and_variables(host: str, how: str) -> None:
    step = HOSTS[host](how)
    for each in gradients():
        step(*each)
    assert told.scaler_reports() == (expected("" if host == "keras 3" else ":0"),)
    assert told.scaler_notes() == ()


def in_a_session(law: Any) -> tuple[Any, Any, Any]:
    """An optimizer in the graph at hand, its step, and what feeds it."""
    opt = mixdown.MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(0.1, name="mine"), law)
    opt.usage.note_scaled()
    fed = [v1.placeholder(tf.float32, [1]) for _ in "ab"]
    variables = [v1.get_variable(name, initializer=[1.0], use_resource=True) for name in "ab"]
    return opt, opt.apply_gradients(zip(fed, variables, strict=True)), fed


@pytest.mark.parametrize("monitored", [True, False])
def test_skips_in_a_session_are_reported_while_it_is_open(*, monitored: bool) -> None:
    feeds = [[each.numpy() for each in pair] for pair in gradients()]
    with tf.Graph().as_default():
        optimizer, step, fed = in_a_session(mixdown.DynamicLossScale(1024.0, 10))
        with v1.train.MonitoredTrainingSession() if monitored else v1.Session() as session:
            if not monitored:
                session.run(v1.global_variables_initializer())
            for pair in feeds:
                session.run(step, dict(zip(fed, pair, strict=True)))
            assert told.scaler_reports() == (expected(":0"),)
        assert told.scaler_reports() == ()
        assert "counters of mine cannot be read" in told.scaler_notes()[0]
    assert optimizer.get_name() == "mine"


def test_of_several_sessions_the_one_that_trained_most_is_told() -> None:
    with tf.Graph().as_default():
        kept = in_a_session("dynamic")
        sessions = [v1.Session() for _ in range(3)]
        for session, steps in zip(sessions[:2], (1, 2), strict=True):
            session.run(v1.global_variables_initializer())
            for _ in range(steps):
                session.run(kept[1], {each: [NAN] for each in kept[2]})
    assert [each.skipped_steps for each in told.scaler_reports()] == [2]
    for session in sessions:
        session.close()


def test_a_report_can_be_had_while_a_function_is_traced() -> None:
    step, reports = by_keras3("eager"), list[ScalerReport]()

    @tf.function
    def traced() -> None:
        reports.extend(told.scaler_reports())

    for each in list(gradients())[:5]:
        step(*each)
    traced()
    assert [each.skipped_steps for each in reports] == [2]


def test_an_eager_optimizer_is_reported_while_a_session_is_open() -> None:
    optimizer = mixdown.LossScaleOptimizer(tf_keras.optimizers.legacy.SGD(name="mine"), "dynamic")
    weight = tf.Variable([1.0])
    optimizer.minimize(lambda: weight * NAN, [weight])
    with tf.Graph().as_default(), v1.Session():
        assert [each.skipped_steps for each in told.scaler_reports()] == [1]


def test_skips_beyond_the_log_are_counted_and_the_note_says_so() -> None:
    optimizer = mixdown.LossScaleOptimizer(keras.optimizers.SGD(name="mine"), skip_limit=1000)
    weight = keras.Variable([1.0])
    optimizer.build([weight])
    step = tf.function(lambda gradient: [optimizer.scale_loss(1.0), optimizer.apply([gradient], [weight]), 0][2:])
    for number in range(600):
        step(tf.constant([1.0 if number % 2 else NAN]))
    (report,) = told.scaler_reports()
    assert (report.steps, report.skipped_steps, report.loss_scale) == (600, 300, 1.0)
    assert [each.step for each in report.skips] == list(range(88, 600, 2))
    assert report.timeline == ((89, 1.0),)
    assert told.scaler_notes() == ("mine skipped 300 steps, of which the latest 256 are listed.",)


class Odd(mixdown.LossScale):
    """A scale with a law of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.declare("counter", 1.0, tf.float32)
        self.create()

    def __call__(self) -> tf.Tensor:
        return tf.convert_to_tensor(self.weight("counter")) * 3.0

    def update(self, grads: Any) -> Any:
        del grads
        return self.weight("counter").assign_add(1.0), True

    def get_config(self) -> dict[str, Any]:
        return {}


def test_a_scale_with_a_law_of_its_own_is_told_where_it_is_known() -> None:
    optimizer = mixdown.LossScaleOptimizer(tf_keras.optimizers.SGD(name="mine"), Odd())
    variable = tf.Variable([1.0], name="a")
    optimizer.get_scaled_loss(tf.constant(1.0))
    for number in range(4):
        gradient = optimizer.get_unscaled_gradients([tf.constant([NAN if number == 1 else 1.0])])[0]
        optimizer.apply_gradients([(gradient, variable)])
    skips = (Skip(1, (("a:0", "NaN"),)),)
    assert told.scaler_reports() == (ScalerReport("mine", 15.0, 4, 1, ((2, 9.0), (4, 15.0)), skips),)


def test_an_optimizer_that_is_gone_is_not_reported() -> None:
    kept, gone = (mixdown.LossScaleOptimizer(keras.optimizers.SGD(name=name)) for name in ("kept", "gone"))
    assert [each.name for each in told.scaler_reports()] == ["kept", "gone"]
    del gone
    gc.collect()
    assert [each.name for each in told.scaler_reports()] == [kept.inner_optimizer.name]


@pytest.mark.parametrize("host", HOSTS)
def test_the_warning_at_fifty_skips_in_a_row_is_kept_for_the_report(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_given", {})
    step = HOSTS[host]("graph")

    def fifty_one_skips() -> None:
        for _ in range(51):
            step(tf.constant([NAN]), tf.constant([1.0]))

    with pytest.warns(mixdown.LossScaleWarning):
        fifty_one_skips()
    (kept,) = messages.given()
    assert kept.startswith("50 steps in a row were skipped because gradients were not finite: a")
