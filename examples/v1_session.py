"""TensorFlow 1 style: a graph, a v1 optimizer and a session."""

import numpy as np
import tensorflow as tf

import mixdown

v1 = tf.compat.v1
rng = np.random.default_rng(0)
features = rng.normal(size=(256, 16)).astype("float32")
targets = features @ rng.normal(size=(16, 1)).astype("float32")

with tf.Graph().as_default():
    x, y = v1.placeholder(tf.float32, [None, 16]), v1.placeholder(tf.float32, [None, 1])
    hidden = tf.nn.relu(x @ v1.get_variable("kernel", [16, 32]) + v1.get_variable("bias", [32]))
    prediction = tf.matmul(hidden, v1.get_variable("head", [32, 1]), name="prediction")
    loss = tf.reduce_mean(tf.square(prediction - y))

    # Enable it before you create the session. The session runs a rewritten copy of the graph; names and dtypes stay.
    optimizer = mixdown.enable_mixed_precision_graph_rewrite(
        v1.train.AdamOptimizer(0.01), policy=mixdown.Policy(devices=("GPU", "CPU"))
    )
    train = optimizer.minimize(loss)

    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        first = session.run(loss, {x: features, y: targets})
        for _ in range(150):
            session.run(train, {x: features, y: targets})
        last, fetched = session.run([loss, "prediction:0"], {x: features, y: targets})
        print(f"loss: {first:.2f} before training, {last:.2f} after; fetched by name as {fetched.dtype}")
        report = mixdown.report()
    print(next(graph for graph in report.graphs if graph.kind == "session").totals)
    print(report.why("prediction"))
