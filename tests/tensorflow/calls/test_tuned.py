"""tf.functions under `Policy(strategy="tuned")`: planted candidates, what is kept and said, and what stays the same."""

from __future__ import annotations

import gc
import threading
import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tests.tuning import planted_clock
from tests.tuning.planted_clock import low_is_faster

import mixdown
from mixdown.core import Level
from mixdown.tensorflow.calls import active_policy, tuned_twins
from mixdown.tensorflow.runtime.private import context
from mixdown.tuning import memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mixdown.tuning.memory import Tuned

POLICY = mixdown.Policy(low="bfloat16", devices="all", strategy="tuned")
THIRD = tf.fill([4, 4], 1 / 3)


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache folder, and no twins of other tests."""
    monkeypatch.setenv(memory.VARIABLE, str(tmp_path))
    monkeypatch.setattr(active_policy, "_made", {})


@pytest.fixture
def chain() -> Any:
    """Two products with element-wise ops between them; the test keeps the function alive."""
    return make_chain()


def make_chain() -> Any:

    @tf.function
    def made(x: Any) -> Any:
        y = tf.matmul(x, x)
        for _ in range(6):
            y = tf.nn.relu(y * 0.9)
        return tf.matmul(y, x)

    return made


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[mixdown.Policy], float]], None]:
    """Replaces the clock: every call takes the seconds that its policy is given, and no other."""
    return lambda seconds: planted_clock.plant(monkeypatch, tuned_twins, seconds)


def found(policy: mixdown.Policy = POLICY) -> list[Tuned]:
    return [twin.tuned for _, _, twin in active_policy.twins_for(policy).made() if twin.tuned]


def run(function: Any, *args: Any, policy: mixdown.Policy = POLICY, times: int = 250) -> Any:
    with mixdown.rewriting(policy):
        for _ in range(times):
            result = function(*args)
    return result


def products_only(policy: mixdown.Policy) -> bool:
    return {override.kind for override in policy.overrides} >= {"Mul", "Relu"} and policy.level is Level.DEFAULT


def test_a_planted_fast_candidate_is_always_kept(plant: Any, chain: Any) -> None:
    plant(lambda policy: 0.7 if products_only(policy) else 1.0)
    for _ in range(5):
        active_policy._made.clear()
        for each in memory.folder().glob("*"):
            each.unlink()
        run(chain, THIRD)
        (tuned,) = found()
        assert tuned.kept == "bfloat16 products, float32 element-wise"


def test_a_planted_slow_candidate_is_never_kept(plant: Any, chain: Any) -> None:
    plant(lambda policy: 1.0 if policy.level is Level.NOTHING else 1.2)
    function = chain
    expected = function(THIRD).numpy()
    result = run(function, THIRD)
    (tuned,) = found()
    assert tuned.kept == "float32"
    np.testing.assert_array_equal(result.numpy(), expected)  # bit for bit


def test_a_delay_in_the_kernel_of_an_op_is_seen() -> None:
    """Whoever reads rounded values here, waits."""

    def wait(values: np.ndarray) -> np.float32:
        if (values.astype("float16").astype("float32") == values).all():
            time.sleep(0.004)
        return np.float32(0)

    @tf.function
    def delayed(x: Any) -> Any:
        product = tf.matmul(x, x, name="product")
        return tf.reduce_sum(product) + tf.numpy_function(wait, [product], tf.float32)

    run(delayed, THIRD)
    (tuned,) = found()
    assert tuned.kept == "float32"
    assert next(trial for trial in tuned.trials if trial.name == "bfloat16").ratio > 1.5


def test_while_it_is_tuned_every_call_is_made_once_and_by_a_valid_plan(plant: Any) -> None:
    plant(lambda _: 1.0)
    count = tf.Variable(0.0)

    @tf.function
    def counting(x: Any) -> Any:
        count.assign_add(1.0)
        return tf.matmul(tf.nn.relu(tf.matmul(x, x)), x)

    exact = counting(THIRD).numpy()
    results = set()
    with mixdown.rewriting(POLICY):
        for _ in range(120):
            result = counting(THIRD).numpy()
            np.testing.assert_allclose(result, exact, rtol=0.02)
            results.add(float(result[0, 0]))
    assert float(count) == 121
    assert len(results) > 1  # more than one candidate ran


def test_once_a_function_has_its_twin_calls_go_the_ordinary_way(plant: Any) -> None:
    plant(lambda policy: 0.5 if products_only(policy) else 1.0)
    function = make_chain()
    run(function, THIRD)
    twins = active_policy.twins_for(POLICY)
    name = function.get_concrete_function(THIRD).name
    twin = twins.known[name, context().device_name]
    assert twin.timer is None
    registered = [each for each in context().list_function_names() if each.startswith(f"{name.decode()}__bfloat16")]
    assert registered == [twin.name.decode()]  # the other candidates are gone
    del function
    gc.collect()
    assert not context().has_function(twin.name)


def test_what_was_found_out_is_used_at_once_by_the_next_run(
    plant: Any, caplog: pytest.LogCaptureFixture, chain: Any
) -> None:
    plant(lambda policy: 0.5 if products_only(policy) else 1.0)
    first = run(chain, THIRD).numpy()
    (before,) = found()
    active_policy._made.clear()
    function = make_chain()  # traced anew, as in another process
    with caplog.at_level("INFO", "mixdown"):
        again = run(function, THIRD, times=1).numpy()
    (after,) = found()
    assert after == before
    np.testing.assert_array_equal(again, first)
    assert "as in an earlier run, kept bfloat16 products, float32 element-wise: 0.50 of float32" in caplog.text


def test_a_saved_policy_reproduces_the_choice_anywhere(
    plant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chain: Any
) -> None:
    plant(lambda policy: 0.5 if products_only(policy) else 1.0)
    first = run(chain, THIRD).numpy()
    with mixdown.rewriting(POLICY):
        frozen = mixdown.tuned_policy()
    assert frozen == mixdown.tuned_policy(POLICY)
    path = frozen.save(tmp_path / "policy.json")
    monkeypatch.setenv(memory.VARIABLE, str(tmp_path / "elsewhere"))
    loaded = mixdown.Policy.load(path)
    assert loaded == frozen
    function = make_chain()
    np.testing.assert_array_equal(run(function, THIRD, policy=loaded, times=1).numpy(), first)
    assert found(loaded)[0].policy == found()[0].policy


def test_only_a_policy_that_is_tuned_can_be_frozen() -> None:
    with pytest.raises(mixdown.PolicyError, match=r"Only Policy\(strategy='tuned'\) is tuned, not float32\."):
        mixdown.tuned_policy()
    with pytest.raises(mixdown.PolicyError, match=r"not Policy\(\)"):
        mixdown.tuned_policy(mixdown.Policy())


def test_the_report_shows_every_candidate_and_what_was_kept(plant: Any, chain: Any) -> None:
    plant(lambda policy: 0.5 if products_only(policy) else 1.0)
    run(chain, THIRD)
    report = mixdown.report()
    (graph,) = [each for each in report.graphs if each.trials and each.kind == "function"]  # sessions are others'
    assert graph.tuned == "kept bfloat16 products, float32 element-wise: 0.50 of float32"
    assert {"float32", "bfloat16"} < {trial.name for trial in graph.trials}
    told = str(report)
    assert "Tuning of made on CPU: kept bfloat16 products, float32 element-wise: 0.50 of float32" in told
    assert "candidate" in told
    assert type(report).from_json(report.to_json()).graphs == report.graphs
    assert {op.kind for op in graph.low_ops} == {"MatMul"}


def test_a_report_in_between_says_that_tuning_goes_on(plant: Any, chain: Any) -> None:
    plant(lambda _: 1.0)
    run(chain, THIRD, times=20)
    assert "Tuning of made on CPU: going on" in str(mixdown.report())


def test_float32_that_is_kept_is_the_reason_in_the_report(plant: Any, chain: Any) -> None:
    plant(lambda policy: 1.0 if policy.level is Level.NOTHING else 1.4)
    run(chain, THIRD)
    (graph,) = [each for each in mixdown.report().graphs if each.tuned and "made" in each.name]
    assert graph.reason == "float32 was kept, for nothing was faster"


def test_a_function_that_no_plan_changes_is_not_tuned() -> None:
    function = tf.function(lambda x: x + 1.0)
    run(function, THIRD, times=2)
    assert found() == []
    name = function.get_concrete_function(THIRD).name
    assert (name, context().device_name) in active_policy.twins_for(POLICY).known
    assert not memory.folder().exists()


def test_keras_fit_is_tuned_while_it_trains(plant: Any) -> None:
    plant(low_is_faster)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
    model.compile(mixdown.LossScaleOptimizer(keras.optimizers.SGD(0.05)), "mse")
    x = np.random.default_rng(0).normal(size=(512, 8)).astype("float32")
    with mixdown.rewriting(POLICY):
        history = model.fit(x, x[:, :1], batch_size=16, epochs=4, verbose=0)
    assert history.history["loss"][-1] < 0.2 * history.history["loss"][0]
    assert [tuned.kept for tuned in found()] != []
    assert all("bfloat16" in tuned.kept for tuned in found())


def test_a_compiled_function_is_tuned_too(plant: Any) -> None:
    plant(low_is_faster)
    compiled = tf.function(lambda x: tf.matmul(tf.nn.relu(tf.matmul(x, x)), x), jit_compile=True)
    np.testing.assert_allclose(run(compiled, THIRD).numpy(), compiled(THIRD).numpy(), rtol=0.02)
    assert "bfloat16" in found()[0].kept


def test_a_call_that_fails_does_not_count_and_is_raised(plant: Any) -> None:
    plant(lambda _: 1.0)

    @tf.function
    def checked(x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(x, 100.0)]):
            return tf.matmul(tf.nn.relu(tf.matmul(x, x)), x)

    with mixdown.rewriting(POLICY):
        checked(THIRD)
        twins = active_policy.twins_for(POLICY)
        (tuner,) = [each for each in twins._tuners.values() if each]  # type: ignore[attr-defined]
        before = tuner._race
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError):
                checked(THIRD * 1e6)
        assert tuner._race is before
        assert twins._under_way == 0  # type: ignore[attr-defined]


def test_several_threads_may_call_a_function_while_it_is_tuned(plant: Any, chain: Any) -> None:
    plant(low_is_faster)
    function, errors = chain, []
    exact = function(THIRD).numpy()

    def call() -> None:
        try:
            with mixdown.rewriting(POLICY):
                for _ in range(150):
                    np.testing.assert_allclose(function(THIRD).numpy(), exact, rtol=0.05)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert found()[0].kept


def test_calls_with_other_shapes_do_not_disturb(plant: Any) -> None:
    plant(low_is_faster)

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def any_rows(x: Any) -> Any:
        return tf.matmul(tf.nn.relu(tf.matmul(x, THIRD)), THIRD)

    with mixdown.rewriting(POLICY):
        for number in range(500):
            any_rows(tf.fill([8 if number % 5 else 3, 4], 1 / 3))
    (tuned,) = found()
    assert "bfloat16" in tuned.kept


def test_all_replicas_have_the_same_plan(plant: Any) -> None:
    plant(low_is_faster)
    strategy = (
        tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        if len(tf.config.list_logical_devices("CPU")) > 1
        else (tf.distribute.MirroredStrategy(["CPU:0"]))
    )

    @tf.function
    def step(x: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(lambda x: tf.reduce_sum(tf.matmul(x, x)), args=(x,)), axis=None)

    run(step, THIRD)
    assert len(found()) == 1
    assert len({twin.name for twin in active_policy.twins_for(POLICY).known.values()}) == 1


def test_an_idle_rule_of_the_policy_is_told_once(plant: Any, recwarn: pytest.WarningsRecorder) -> None:
    plant(lambda _: 1.0)
    weights = tf.Variable(tf.eye(4))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.relu(tf.matmul(x, weights)))
        return tape.gradient(loss, weights)

    with pytest.warns(mixdown.MixdownWarning, match="The rule layer='nowhere' of the policy has no effect"):
        run(step, THIRD, policy=POLICY.with_keep(layer="nowhere"), times=100)
    assert not list(recwarn)
