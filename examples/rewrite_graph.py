"""Rewrite the graph of a training step and print what changed. Needs no GPU and downloads nothing."""

import tensorflow as tf

import mixdown

# A small network. Its training step contains convolution, pooling, dense layers, loss, gradients and weight update.
model = tf.keras.Sequential(
    [
        tf.keras.layers.Input((28, 28, 1)),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.1)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """One step of training."""
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss


traced = train_step.get_concrete_function(tf.TensorSpec([32, 28, 28, 1]), tf.TensorSpec([32], tf.int32))
rewrite = mixdown.rewrite_graph_def(
    traced.graph.as_graph_def(add_shapes=True),
    fetches=[output.name for output in traced.outputs],
    feeds=[placeholder.name for placeholder in traced.inputs],
)
print(rewrite)

print("\nWhy is the loss in float32, and the first convolution in float16?")
print(rewrite.plan.why("SparseSoftmaxCrossEntropyWithLogits/SparseSoftmaxCrossEntropyWithLogits"))
convolution = next(op.name for op in rewrite.plan.graph.ops if op.kind == "Conv2D")
print(rewrite.plan.why(convolution))

print(f"\nEvery op and every cast: {rewrite.save('mixdown-report.html')}")
