"""A custom policy: choose which ops run in 16 bits, by kind, scope or name, and print the reason for a decision."""

import tensorflow as tf

import mixdown


class Network(tf.Module):
    """Two layers and a head."""

    def __init__(self) -> None:
        super().__init__("network")
        self.kernels = [tf.Variable(tf.random.stateless_normal([64, 64], [seed, 0]) / 8) for seed in range(3)]

    @tf.function(input_signature=[tf.TensorSpec([None, 64])])
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Compute scores."""
        for number, kernel in enumerate(self.kernels[:2]):
            with tf.name_scope(f"layer_{number}"):
                x = tf.tanh(x @ kernel)
        with tf.name_scope("head"):
            return x @ self.kernels[2]


network, x = Network(), tf.random.stateless_normal([8, 64], [9, 9])
wanted = network(x)

everything = mixdown.Policy(low="bfloat16", devices="all")
policies = {
    "the documented rules": everything,
    "Tanh stays in float32": everything.with_keep("Tanh"),
    "the head stays in float32": everything.with_deny(layer="head"),
    "one op stays in float32": everything.with_keep(name="layer_0/MatMul.*|layer_0/matmul.*"),
    "TensorFlow 2.21's own choices": mixdown.Policy(low="bfloat16", devices="all", rules="tf-2.21"),
}
for what, policy in policies.items():
    with mixdown.rewriting(policy):
        error = tf.reduce_max(tf.abs(network(x) - wanted)) / tf.reduce_max(tf.abs(wanted))
    print(f"{what:<32} largest relative error {float(error):.5f}")

# See what a policy would do, without running anything.
graph_def = network.__call__.get_concrete_function().graph.as_graph_def()
fetches = [node.name for node in graph_def.node if node.name.startswith("Identity")]
rewrite = mixdown.rewrite_graph_def(graph_def, fetches, policy=policies["the head stays in float32"])
print(rewrite)
print(rewrite.plan.why("head/matmul"))
