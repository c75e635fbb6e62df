"""Programs after the pattern of keras.io's examples with unusual steps: rewards, alignments, derivatives."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from benchmarks.zoo.training import BATCH, Run
from keras import layers, ops


def actor_critic(run: Run) -> list[float]:
    """An actor and a critic on a balancing pole, whose episode is simulated inside the step."""
    common = layers.Dense(64, activation="relu")
    actor, critic = layers.Dense(2), layers.Dense(1)
    seeds = keras.random.SeedGenerator(run.seed)
    start = tf.constant(run.data.uniform(-0.05, 0.05, (BATCH, 4)).astype("float32"))

    def loss() -> Any:
        state, values, chances, rewards = start, [], [], []
        for _ in range(8):
            hidden = common(state)
            logits = actor(hidden)
            values.append(critic(hidden)[:, 0])
            action = keras.random.categorical(logits, 1, seed=seeds)[:, 0]
            chances.append(ops.sum(ops.one_hot(action, 2) * ops.log_softmax(logits), -1))
            push = ops.cast(action * 2 - 1, "float32") * 10.0
            x, speed, angle, turn = (state[:, i] for i in range(4))
            spin = (9.8 * ops.sin(angle) - ops.cos(angle) * push / 1.1) / 0.65
            state = ops.stack([x + 0.02 * speed, speed + 0.02 * push, angle + 0.02 * turn, turn + 0.02 * spin], -1)
            rewards.append(ops.cast(ops.abs(state[:, 2]) < 0.2, "float32"))
        returns = [sum(0.99**k * reward for k, reward in enumerate(rewards[i:])) for i in range(8)]
        gains = [got - ops.stop_gradient(value) for got, value in zip(returns, values, strict=True)]
        policy = -sum(chance * gain for chance, gain in zip(chances, gains, strict=True))
        error = sum(ops.square(value - got) for value, got in zip(values, returns, strict=True))
        return ops.mean(policy + 0.5 * error)

    return run.train(loss, lambda: [w for layer in (common, actor, critic) for w in layer.trainable_variables])


def CTC(run: Run) -> list[float]:  # noqa: N802 - the name of the loss
    """Read digits from an image of a line of them: convolutions, a recurrent layer and the CTC loss."""
    images, labels = run.digits(8)
    lines = np.concatenate([np.roll(images, shift, 0) for shift in range(4)], 2)
    targets = np.stack([np.roll(labels, shift) for shift in range(4)], 1) + 1  # 0 is the blank
    x = inputs = keras.Input((8, 32, 1))
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    x = layers.Reshape((32, 8 * 32))(layers.Permute((2, 1, 3))(x))
    x = layers.Bidirectional(layers.LSTM(32, return_sequences=True))(x)
    return run.fit(keras.Model(inputs, layers.Dense(11)(x)), lines, targets, keras.losses.CTC())


def contrastive(run: Run) -> list[float]:
    """Learn from two views of every image that they belong together."""
    images = tf.constant(run.digits(16)[0])
    network = keras.Sequential(
        [layers.Conv2D(32, 3, 2, activation="relu"), layers.Conv2D(64, 3, 2, activation="relu"), layers.Flatten()]
    )
    head = layers.Dense(32)
    seeds = keras.random.SeedGenerator(run.seed)

    def loss() -> Any:
        views = [images + 0.1 * keras.random.normal(images.shape, seed=seeds) for _ in range(2)]
        one, other = (ops.normalize(head(network(view)), axis=1) for view in views)
        alike = ops.matmul(one, ops.transpose(other)) / 0.1
        pairs = ops.arange(BATCH)
        both = [
            keras.losses.sparse_categorical_crossentropy(pairs, each, from_logits=True)
            for each in (alike, ops.transpose(alike))
        ]
        return ops.mean(both[0] + both[1]) / 2

    return run.train(loss, lambda: [*network.trainable_variables, *head.trainable_variables])


def radiance_field(run: Run) -> list[float]:
    """Render rays through a network of positions in a Fourier basis, and fit the pixels."""
    rays, samples = 64, 16
    origins = run.data.normal(size=(rays, 1, 3)).astype("float32")
    depths = np.linspace(2.0, 6.0, samples, dtype="float32")
    points = tf.constant(origins + depths[None, :, None] * run.data.normal(size=(rays, 1, 3)).astype("float32"))
    pixels = tf.constant(run.data.uniform(size=(rays, 3)).astype("float32"))
    network = keras.Sequential(
        [layers.Dense(64, activation="relu"), layers.Dense(64, activation="relu"), layers.Dense(4)]
    )

    def loss() -> Any:
        waves = [wave(2.0**power * points) for power in range(6) for wave in (ops.sin, ops.cos)]
        out = network(ops.reshape(ops.concatenate([points, *waves], -1), (rays * samples, -1)))
        out = ops.reshape(out, (rays, samples, 4))
        colour, opacity = ops.sigmoid(out[..., :3]), 1 - ops.exp(-ops.relu(out[..., 3]) * (4.0 / samples))
        passed = tf.math.cumprod(1 - opacity + 1e-10, axis=-1, exclusive=True)
        return ops.mean(ops.square(ops.sum((opacity * passed)[..., None] * colour, 1) - pixels))

    return run.train(loss, lambda: network.trainable_variables)


def heat_equation(run: Run) -> list[float]:
    """A network that solves a differential equation: its loss holds second derivatives."""
    points = tf.constant(run.data.uniform(size=(128, 2)).astype("float32"))
    network = keras.Sequential(
        [layers.Dense(32, activation="tanh"), layers.Dense(32, activation="tanh"), layers.Dense(1)]
    )

    def loss() -> Any:
        with tf.GradientTape() as outer:
            outer.watch(points)
            with tf.GradientTape() as inner:
                inner.watch(points)
                value = network(points)
            slope = inner.gradient(value, points)
            along = slope[:, 0]
        curve = outer.gradient(along, points)
        start = network(points * tf.constant([1.0, 0.0]))
        return ops.mean(ops.square(slope[:, 1] - 0.1 * curve[:, 0])) + ops.mean(
            ops.square(start[:, 0] - ops.sin(3.1415927 * points[:, 0]))
        )

    return run.train(loss, lambda: network.trainable_variables)


def LSTM_text(run: Run) -> list[float]:  # noqa: N802 - the name of the layer
    """Classify text by two recurrent layers."""
    model = keras.Sequential(
        [layers.Embedding(400, 32), layers.LSTM(32, return_sequences=True), layers.GRU(32), layers.Dense(2)]
    )
    labels = run.data.integers(0, 2, (BATCH,))
    return run.fit(model, run.tokens(400), labels, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
