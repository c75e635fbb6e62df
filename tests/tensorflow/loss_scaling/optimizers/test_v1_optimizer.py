"""The v1 optimizer from outside: what training changes, in a Session, eagerly, in tf.function and under XLA."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tensorflow.loss_scaling.optimizers.v1_training import B0, MOMENTUM, RATE, W0, reference

from mixdown.tensorflow.loss_scaling.loss_scale import DynamicLossScale, FixedLossScale, LossScale
from mixdown.tensorflow.loss_scaling.optimizers.v1 import MixedPrecisionLossScaleOptimizer

# Many of these tests hand in gradients of their own making, of no loss at all.
pytestmark = pytest.mark.filterwarnings("ignore:Gradients were applied of a loss")

v1 = tf.compat.v1
FORMS = ["eager", "function", "xla", "session"]
NAN, INF = float("nan"), float("inf")
STORY = [1.0, NAN, 0.5, INF, -INF, NAN, 1.5, 1.0, NAN]


def momentum(loss_scale: Any = "dynamic", **options: Any) -> MixedPrecisionLossScaleOptimizer:
    return MixedPrecisionLossScaleOptimizer(v1.train.MomentumOptimizer(RATE, MOMENTUM), loss_scale, **options)


class Run:
    """The training problem in one of the forms: `step(x)` tries a step, `state()` reads everything."""

    def __init__(self, form: str, loss_scale: Any, **options: Any) -> None:
        self.session = v1.Session() if form == "session" else None
        self.w, self.b = (tf.Variable(value, name=name) for name, value in (("w", W0), ("b", B0)))
        self.count = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.optimizer = momentum(loss_scale, **options)
        self.step = self.by_session() if self.session else self.by_call(form)

    def minimize(self, x: tf.Tensor) -> Any:
        def loss() -> tf.Tensor:
            return x * tf.reduce_sum(self.w**2) / 2.0 + tf.reduce_sum(self.b)

        given = loss() if self.session else loss
        return self.optimizer.minimize(given, self.count, [self.w, self.b])

    def by_call(self, form: str) -> Callable[[float], Any]:
        def call(x: tf.Tensor) -> None:
            self.minimize(x)

        step = call if form == "eager" else tf.function(call, jit_compile=form == "xla", autograph=False)
        return lambda x: step(tf.constant(x))

    def by_session(self) -> Callable[[float], Any]:
        fed = v1.placeholder(tf.float32, [])
        operation = self.minimize(fed)
        assert isinstance(operation, tf.Operation)
        assert self.session
        self.session.run(v1.global_variables_initializer())
        return lambda x: self.session.run(operation, {fed: x})  # type: ignore[union-attr]

    def state(self) -> dict[str, Any]:
        slots = [self.optimizer.get_slot(each, "momentum") for each in (self.w, self.b)]
        read = [self.w, self.b, *slots, self.count]
        values = self.session.run(read) if self.session else [each.numpy() for each in read]
        return dict(zip(("w", "b", "mw", "mb", "global_step"), (each.tolist() for each in values), strict=True))


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "session":
        with tf.Graph().as_default():
            yield request.param
    else:
        yield request.param


@pytest.mark.parametrize("loss_scale", ["dynamic", 1024, DynamicLossScale(2.0**100, 1)], ids=str)
def test_training_equals_numpy_and_skips_what_is_not_finite(form: str, loss_scale: Any) -> None:
    run = Run(form, loss_scale)
    for tried, x in enumerate(STORY):
        before = run.state() if tried else None
        run.step(x)
        after = run.state()
        if before is not None and not np.isfinite(x):
            assert after == before
        for name, expected in reference(STORY[: tried + 1]).items():
            np.testing.assert_allclose(after[name], expected, rtol=1e-6)


def test_the_account_tells_what_was_skipped_and_why(form: str) -> None:
    run = Run(form, DynamicLossScale(1024.0, 2))
    assert run.optimizer.account(run.session).last_skipped_step is None
    for x in STORY[:6]:
        run.step(x)
    account = run.optimizer.account(run.session)
    told = [(1, 512.0, "NaN"), (3, 256.0, "Inf"), (4, 128.0, "Inf"), (5, 64.0, "NaN")]
    assert account[:-1] == (64.0, 6, 4, 5, 3, 0, [(step, scale, 0, [("w:0", held)]) for step, scale, held in told])
    assert account.offending_variables == [("w:0", "NaN")]
    run.step(1.0)
    account = run.optimizer.account(run.session)
    assert (account.skips_in_a_row, account.good_steps, account.last_skipped_step) == (0, 1, 5)
    run.step(-INF)
    assert run.optimizer.account(run.session).offending_variables == [("w:0", "Inf")]


def test_a_fixed_scale_skips_and_counts_too_but_does_not_move(form: str) -> None:
    run = Run(form, 8.0)
    for x in [1.0, NAN, 1.0, 1.0]:
        run.step(x)
    account = run.optimizer.account(run.session)
    assert (account.loss_scale, account.skipped_steps, account.good_steps) == (8.0, 1, 2)


def test_in_eager_the_properties_are_python_values() -> None:
    run = Run("eager", "dynamic")
    run.step(1.0)
    run.step(NAN)
    optimizer = run.optimizer
    assert (optimizer.steps, optimizer.skipped_steps, optimizer.last_skipped_step) == (2, 1, 1)
    assert (optimizer.skips_in_a_row, optimizer.good_steps) == (1, 0)
    assert optimizer.offending_variables == [("w:0", "NaN")]
    assert float(optimizer.loss_scale()) == 2.0**14


def test_200_bad_steps_leave_the_weights_as_they_are_and_the_scale_usable(form: str) -> None:
    run = Run(form, "dynamic", skip_limit=1000)
    run.step(1.0)
    before = run.state()
    for _ in range(200 if form != "eager" else 60):
        run.step(INF)
    assert run.state() == before
    assert run.optimizer.account(run.session).loss_scale == 1.0
    run.step(0.5)
    np.testing.assert_allclose(run.state()["w"], reference([1.0, 0.5])["w"], rtol=1e-6)


def test_the_intermediate_gradient_is_scaled_and_the_returned_one_is_not() -> None:
    seen = []

    @tf.custom_gradient
    def spy(value: tf.Tensor) -> tuple[tf.Tensor, Any]:
        def backward(upstream: tf.Tensor) -> tf.Tensor:
            seen.append(float(upstream))
            return upstream

        return tf.identity(value), backward

    w = tf.Variable(3.0)
    ((gradient, variable),) = momentum(512.0).compute_gradients(lambda: spy(w * 2.0), [w])
    assert seen == [512.0]
    assert float(gradient) == 2.0
    assert variable is w


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32, tf.float64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("scale", [2.0**15, 2.0**20, 2.0**127])
def test_unscaling_by_a_power_of_two_is_exact(dtype: tf.DType, scale: float) -> None:
    numbers = [1.5, -3.25, 2.0**-5, 0.0]
    w = tf.Variable(tf.cast(numbers, dtype))
    inner = v1.train.GradientDescentOptimizer(1.0)
    # The inner optimizer returns these "scaled" gradients; only the unscaling is under test.
    inner.compute_gradients = lambda **_: [(tf.cast([each * 256 for each in numbers], dtype), w)]
    optimizer = MixedPrecisionLossScaleOptimizer(inner, DynamicLossScale(scale))
    ((gradient, _),) = optimizer.compute_gradients(lambda: tf.constant(0.0), [w])
    exact = (np.array(numbers) * 256 / scale).astype(dtype.as_numpy_dtype)
    tiny = np.abs(exact.astype(np.float64)) < float(np.finfo(np.float32).tiny)
    expected = np.where(tiny & (exact != 0), gradient.numpy(), exact)  # subnormals may be flushed
    np.testing.assert_array_equal(gradient.numpy(), expected)
    assert gradient.dtype == dtype


def test_float16_variables_train_with_a_scale_float16_cannot_hold() -> None:
    w = tf.Variable([1.0, 2.0], dtype=tf.float16)
    optimizer = MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(0.5), 4096)
    optimizer.minimize(lambda: tf.reduce_sum(w), var_list=[w])
    assert w.numpy().tolist() == [0.5, 1.5]


def test_sparse_gradients_keep_their_indices_and_none_stays_none() -> None:
    table, unused = tf.Variable(tf.ones([5, 2])), tf.Variable(1.0)
    optimizer = momentum(64.0)
    pairs = optimizer.compute_gradients(lambda: tf.reduce_sum(tf.gather(table, [3, 3, 1]) * 2.0), [table, unused])
    (slices, _), (nothing, _) = pairs
    assert nothing is None
    assert slices.indices.numpy().tolist() == [3, 3, 1]
    assert slices.values.numpy().tolist() == [[2.0, 2.0]] * 3
    optimizer.apply_gradients(pairs)
    np.testing.assert_allclose(table.numpy()[:, 0], [1, 1 - 2 * RATE, 1, 1 - 4 * RATE, 1], rtol=1e-6)
    bad = tf.IndexedSlices(slices.values * INF, slices.indices, slices.dense_shape)
    before = table.numpy()
    optimizer.apply_gradients([(bad, table), (None, unused)])
    np.testing.assert_array_equal(table.numpy(), before)
    assert optimizer.offending_variables == [(table.name, "Inf")]


def test_clipping_and_accumulation_in_between_see_unscaled_gradients() -> None:
    w = tf.Variable([3.0, 4.0])
    optimizer = MixedPrecisionLossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), 2.0**15)
    first = optimizer.compute_gradients(lambda: tf.reduce_sum(w**2) / 2, [w])[0][0]
    second = optimizer.compute_gradients(lambda: tf.reduce_sum(w), [w])[0][0]
    assert first.numpy().tolist() == [3.0, 4.0]
    clipped, norm = tf.clip_by_global_norm([first], 1.0)
    assert float(norm) == 5.0
    optimizer.apply_gradients([(clipped[0] + second, w)])
    np.testing.assert_allclose(w.numpy(), [3 - 0.6 - 1, 4 - 0.8 - 1], rtol=1e-6)


def test_grad_loss_is_honoured_in_graphs() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=[1.0, 2.0])
        pairs = momentum(16.0).compute_gradients(w * 3.0, [w], grad_loss=tf.constant([1.0, 10.0]))
        session.run(v1.global_variables_initializer())
        assert session.run(pairs[0][0]).tolist() == [3.0, 30.0]


@pytest.mark.parametrize(
    "inner", [v1.train.AdamOptimizer(0.1), v1.train.AdagradOptimizer(0.1), v1.train.RMSPropOptimizer(0.1)]
)
def test_slots_variables_and_name_are_those_of_the_wrapped_optimizer(inner: Any) -> None:
    optimizer, w = MixedPrecisionLossScaleOptimizer(inner, "dynamic"), tf.Variable([1.0])
    optimizer.minimize(lambda: tf.reduce_sum(w**2), var_list=[w])
    assert optimizer.get_name() == inner.get_name()
    assert optimizer.get_slot_names() == inner.get_slot_names() != []
    assert all(optimizer.get_slot(w, name) is inner.get_slot(w, name) for name in inner.get_slot_names())
    names = {each.name for each in optimizer.variables()}
    assert names >= {each.name for each in inner.variables()} | {"current_loss_scale:0", "good_steps:0"}


def test_the_operation_has_the_given_name_and_is_the_train_op() -> None:
    with tf.Graph().as_default():
        w = v1.get_variable("w", initializer=1.0)
        operation = momentum().minimize(w * 2.0, name="my_step")
        assert operation.name == "my_step"
        assert v1.get_collection(v1.GraphKeys.TRAIN_OP) == [operation]
        assert momentum().minimize(w * 2.0).name == "Momentum"


SIGNATURES = {
    "apply_gradients": ["grads_and_vars", "global_step", "name"],
    "compute_gradients": [
        "loss",
        "var_list",
        "gate_gradients",
        "aggregation_method",
        "colocate_gradients_with_ops",
        "grad_loss",
    ],
    "get_name": [],
    "get_slot": ["var", "name"],
    "get_slot_names": [],
    "minimize": [
        "loss",
        "global_step",
        "var_list",
        "gate_gradients",
        "aggregation_method",
        "colocate_gradients_with_ops",
        "name",
        "grad_loss",
    ],
    "variables": [],
}


@pytest.mark.parametrize("member", SIGNATURES)
def test_documented_signature(member: str) -> None:
    documented = getattr(v1.train.Optimizer, member)
    ours = inspect.signature(getattr(MixedPrecisionLossScaleOptimizer, member)).parameters
    assert [name for name in ours if name != "self"] == SIGNATURES[member]
    for name in SIGNATURES[member]:
        assert ours[name].default == inspect.signature(documented).parameters[name].default


def test_gates_and_family() -> None:
    kind = MixedPrecisionLossScaleOptimizer
    assert (kind.GATE_NONE, kind.GATE_OP, kind.GATE_GRAPH) == (0, 1, 2)
    assert isinstance(momentum(), v1.train.Optimizer)
    assert list(inspect.signature(kind).parameters)[:2] == ["opt", "loss_scale"]


class Stubborn(LossScale):
    """A user's own loss scale: never applies the second step."""

    def __init__(self) -> None:
        super().__init__()
        self.declare("updates", 0, tf.int64)

    def __call__(self) -> tf.Tensor:
        return tf.constant(4.0)

    def update(self, grads: Any) -> tuple[Any, Any]:
        del grads
        count = tf.identity(self.weight("updates"))
        return tf.group(self.weight("updates").assign_add(1)), tf.not_equal(count, 1)

    def get_config(self) -> dict[str, Any]:
        return {}


def test_a_loss_scale_of_ones_own_decides(form: str) -> None:
    run = Run(form, Stubborn())
    for x in [1.0, 1.0, NAN, 1.0]:
        run.step(x)
    np.testing.assert_allclose(run.state()["w"], reference([1.0, 1.0])["w"], rtol=1e-6)
    account = run.optimizer.account(run.session)
    assert (account.steps, account.skipped_steps, account.last_skipped_step) == (4, 2, 2)


def test_two_variable_lists_share_the_books_and_keep_their_names() -> None:
    one, two = tf.Variable(1.0, name="one"), tf.Variable(1.0, name="two")
    optimizer = momentum(FixedLossScale(2))
    optimizer.apply_gradients([(tf.constant(1.0), one)])
    optimizer.apply_gradients([(tf.constant(NAN), two)])
    assert optimizer.offending_variables == [("two:0", "NaN")]


def test_the_first_eight_offenders_are_kept_in_order() -> None:
    variables = [tf.Variable(1.0, name=f"v{number}") for number in range(12)]
    optimizer = momentum()
    optimizer.apply_gradients([(tf.constant(NAN if at % 6 else 1.0), each) for at, each in enumerate(variables)])
    names = [name for name, _ in optimizer.offending_variables]
    assert names == ["v1:0", "v2:0", "v3:0", "v4:0", "v5:0", "v7:0", "v8:0", "v9:0"]
