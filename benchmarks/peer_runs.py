"""Training with each tool: whether it works with `fit`, the accuracy, and what happens to steps with Inf or NaN.

Start with `RUNS`: every entry runs in one process, which prints its results as JSON.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from benchmarks.peer_graphs import graphs
from benchmarks.peer_models import BATCH, LEARNED, MODELS, Pictures, build, data, digits, loss_of
from benchmarks.peer_tools import RATE, TOOLS, Tool, sgd

import mixdown

SEEDS = range(10)
EPOCHS = {"digits": 12, "Fashion-MNIST": 3}
BAD_STEPS, STEPS = (3, 7, 8, 12, 18), 20
TINY = 1e-6
"""A gradient so small that it does not overflow before the scale has grown to its limit."""


def measure_graphs(_: Tool) -> dict[str, Any]:
    """The figures of every model's graph, by tool."""
    return {name: {tool: counted._asdict() for tool, counted in graphs(name).items()} for name in MODELS}


def learn(tool: Tool) -> dict[str, Any]:
    """Test accuracies by data and model, one per seed, after the same batches in the same order."""
    return {
        name: {model: accuracies(tool, model, pictures, EPOCHS[name]) for model in LEARNED[name]}
        for name, pictures in data().items()
    }


def accuracies(tool: Tool, name: str, pictures: Pictures, epochs: int) -> list[float]:
    """Train a model from every seed's weights, with a rate that falls to 0; its accuracies on the test set."""
    rate, pixels = tf.Variable(RATE, trainable=False), pictures.x.shape[1]
    keras.config.set_dtype_policy(tool.policy)
    model, optimizer = build(name, pixels=pixels), tool.wrap(rate=lambda: rate)
    keras.config.set_dtype_policy("float32")
    logits = tf.function(model, autograph=False)

    @tf.function(autograph=False)
    def step(pixels: Any, labels: Any) -> None:
        tool.step(optimizer, lambda: loss_of(model, pixels, labels), model.trainable_variables)

    # Traced once for all seeds: what it holds at first is what every seed but for its weights starts with.
    traced = step.get_concrete_function(tf.zeros([BATCH, pixels]), tf.zeros([BATCH], tf.int32))
    held = [(variable, variable.numpy()) for variable in traced.graph.variables]
    found = []
    for seed in SEEDS:
        for variable, value in held:
            variable.assign(value)
        model.set_weights(build(name, seed, pixels).get_weights())
        batches = list(batches_of(pictures, seed, epochs))
        with tool.rewriting():
            for number, batch in enumerate(batches):
                rate.assign(RATE * (1 - number / len(batches)))
                step(tf.constant(pictures.x[batch]), tf.constant(pictures.y[batch]))
            said = np.concatenate([logits(tf.constant(part)) for part in np.array_split(pictures.test_x, 10)])
        found.append(float((said.argmax(1) == pictures.test_y).mean()))
    return found


def batches_of(pictures: Pictures, seed: int, epochs: int) -> Iterator[Any]:
    """The numbers of the pictures in each batch."""
    order, whole = np.random.default_rng(seed), len(pictures.x) // BATCH * BATCH
    for _ in range(epochs):
        yield from order.permutation(len(pictures.x))[:whole].reshape(-1, BATCH)


def fit(tool: Tool) -> str:
    """Whether the documented usage works: wrap a Keras optimizer, compile, fit."""
    enable: Callable[[Any], Any] = {
        "TensorFlow": tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite,
        "Mixdown": partial(mixdown.enable_mixed_precision_graph_rewrite, policy=mixdown.Policy(devices="all")),
    }.get(type(tool).__name__, lambda optimizer: optimizer)
    x, y, *_ = digits()
    keras.config.set_dtype_policy(tool.policy)
    try:
        model = build("MLP")
        model.compile(enable(sgd()), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(x[:BATCH], y[:BATCH], verbose=0)
    except (ValueError, AttributeError) as error:
        return f"no: {type(error).__name__}"
    finally:
        keras.config.set_dtype_policy("float32")
    return "yes"


def scaling(tool: Tool) -> dict[str, Any]:
    """Whether `fit` works, what is reported about skipped steps, and the loss scale in two sequences of steps."""
    return {"fit": fit(tool), "skips": skips(tool), "collapse": collapse(tool), "growth": growth(tool)}


def skips(tool: Tool) -> str:
    """What the tool reports after STEPS steps, of which BAD_STEPS are not finite."""
    bench = Bench(tool)
    for number in range(STEPS):
        bench.step(np.nan if number in BAD_STEPS else 1.0)
    return tool.told(bench.optimizer)


def collapse(tool: Tool) -> dict[str, Any]:
    """200 steps that are not finite, then a finite one."""
    bench = Bench(tool)
    for _ in range(200):
        bench.step(np.nan)
    lowest = tool.scale(bench.optimizer)
    bench.step(1.0)
    return {"scale": lowest, **bench.state()}


def growth(tool: Tool) -> dict[str, Any]:
    """130 steps after each of which the scale may grow, then a step that is not finite, then ten good ones."""
    bench = Bench(tool, period=1)
    for _ in range(130):
        bench.step(TINY)
    highest = tool.scale(bench.optimizer)
    bench.step(np.nan)
    after, before = tool.scale(bench.optimizer), bench.weight.numpy().copy()
    for _ in range(10):
        bench.step(TINY)
    return {"scale": highest, "after": after, "learns": bool((bench.weight.numpy() != before).any()), **bench.state()}


def replicas(tool: Tool) -> dict[str, Any]:
    """Three steps on two replicas; in the second step, the gradients are NaN on the second replica only."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        bench = Bench(tool, strategy=strategy)
    for bad in (False, True, False):
        bench.step(1.0, np.nan if bad else 1.0)
    return bench.state()


class Bench:
    """One weight vector and an optimizer; the argument of a step is its gradient."""

    def __init__(self, tool: Tool, period: int = 2000, strategy: Any = None) -> None:
        self.optimizer = tool.wrap(period)
        self._variable = keras.Variable(np.full([4], 1e-3, "float32"), name="weight")
        self.weight = self._variable.value
        self._strategy = strategy
        if hasattr(self.optimizer, "build"):
            self.optimizer.build([self._variable])

        def apply(slope: Any) -> None:
            tool.step(self.optimizer, lambda: tf.reduce_sum(self.weight * slope), [self._variable])

        run = apply if strategy is None else lambda slope: strategy.run(apply, (slope,))
        self._step = tf.function(run, autograph=False)

    def step(self, *slopes: float) -> None:
        """One step, with a slope for each replica."""
        each = [tf.constant(slope, tf.float32) for slope in slopes]
        if self._strategy is None:
            self._step(each[0])
            return
        self._step(
            self._strategy.experimental_distribute_values_from_function(
                lambda context: each[context.replica_id_in_sync_group]
            )
        )

    def state(self) -> dict[str, Any]:
        """Whether the weights are finite on all replicas."""
        parts = [self.weight] if self._strategy is None else self._strategy.experimental_local_results(self.weight)
        return {"finite": all(bool(np.isfinite(part.numpy()).all()) for part in parts)}


RUNS: dict[str, Callable[[Tool], Any]] = {
    "graphs": measure_graphs,
    "learn": learn,
    "scaling": scaling,
    "replicas": replicas,
}


def run(name: str, tool: str) -> Any:
    """One run of one tool."""
    return RUNS[name](TOOLS[tool])
