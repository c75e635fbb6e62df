"""XLA: functions with jit_compile=True are rewritten before they are compiled. TensorFlow's own pass skips them."""

import tensorflow as tf

import mixdown

kernel = tf.Variable(tf.random.stateless_normal([64, 64], [1, 0]) / 8)
x = tf.random.stateless_normal([32, 64], [2, 0])


@tf.function(jit_compile=True)
def step(x: tf.Tensor) -> tf.Tensor:
    """A few layers."""
    for _ in range(3):
        x = tf.nn.relu(x @ kernel)
    return x


wanted = step(x)
with mixdown.rewriting(mixdown.Policy(devices=("GPU", "CPU"))):
    got = step(x)
error = tf.reduce_max(tf.abs(got - wanted)) / tf.reduce_max(tf.abs(wanted))
print(f"largest relative error: {float(error):.5f}")

report = mixdown.report()
graph = next(graph for graph in report.graphs if "step" in graph.name)
print(f"{graph.totals.low_ops} of {graph.totals.ops} ops in {graph.low}, with {graph.totals.casts} casts")
print(report.why("matmul"))
