"""Models that make images, after the pattern of keras.io's examples: two networks, penalties, noise schedules."""

from typing import Any

import keras
import tensorflow as tf
from benchmarks.zoo.training import BATCH, Run, descend
from keras import layers, ops

NOISE = 16


def _generator() -> Any:
    stack = [
        layers.Dense(4 * 4 * 32),
        layers.LeakyReLU(),
        layers.Reshape((4, 4, 32)),
        layers.Conv2DTranspose(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(),
        layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="sigmoid"),
    ]
    return keras.Sequential([keras.Input((NOISE,)), *stack])


def _critic() -> Any:
    stack = [
        layers.Conv2D(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(),
        layers.Conv2D(64, 4, strides=2, padding="same"),
        layers.LeakyReLU(),
        layers.Flatten(),
        layers.Dense(1),
    ]
    return keras.Sequential([keras.Input((16, 16, 1)), *stack])


def _adversaries(run: Run, judge: Any, make: Any) -> list[float]:
    """Train a critic by the loss `judge` and a generator by `make`; returns the critic's losses."""
    images = tf.constant(run.digits(16)[0])
    generator, critic = _generator(), _critic()
    optimizers = [run.optimizer(keras.optimizers.Adam(2e-4, beta_1=0.5)) for _ in range(2)]
    for optimizer, network in zip(optimizers, (critic, generator), strict=True):
        optimizer.build(network.trainable_variables)
    seeds = keras.random.SeedGenerator(run.seed)

    def step() -> Any:
        noise = keras.random.normal((BATCH, NOISE), seed=seeds)
        made = generator(noise, training=True)
        judged = descend(optimizers[0], lambda: judge(critic, images, made, seeds), critic.trainable_variables)
        descend(optimizers[1], lambda: make(critic(generator(noise, training=True))), generator.trainable_variables)
        return judged

    return run.repeat(step)


def GAN(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """A convolutional GAN."""
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def judge(critic: Any, real: Any, made: Any, _: Any) -> Any:
        return entropy(ops.ones((BATCH, 1)), critic(real)) + entropy(ops.zeros((BATCH, 1)), critic(made))

    return _adversaries(run, judge, lambda verdict: entropy(ops.ones((BATCH, 1)), verdict))


def WGAN_GP(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """A Wasserstein GAN whose critic is penalized for its gradients: derivatives of derivatives."""

    def judge(critic: Any, real: Any, made: Any, seeds: Any) -> Any:
        part = keras.random.uniform((BATCH, 1, 1, 1), seed=seeds)
        mixed = part * real + (1 - part) * made
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            verdict = critic(mixed, training=True)
        slope = ops.sqrt(ops.sum(ops.square(tape.gradient(verdict, mixed)), axis=(1, 2, 3)) + 1e-12)
        return ops.mean(critic(made)) - ops.mean(critic(real)) + 10.0 * ops.mean(ops.square(slope - 1.0))

    return _adversaries(run, judge, lambda verdict: -ops.mean(verdict))


def diffusion(run: Run) -> list[float]:
    """A denoising network with a sinusoidal embedding of the noise's variance."""
    images = tf.constant(run.digits(16)[0])
    seeds = keras.random.SeedGenerator(run.seed)
    noisy, variance = keras.Input((16, 16, 1)), keras.Input((1, 1, 1))
    frequencies = ops.exp(ops.linspace(ops.log(1.0), ops.log(1000.0), 16))
    angles = layers.Lambda(lambda v: 2.0 * 3.1415927 * ops.reshape(frequencies, (1, 1, 1, 16)) * v)(variance)
    embedded = layers.Concatenate()([layers.Lambda(ops.sin)(angles), layers.Lambda(ops.cos)(angles)])
    x = layers.Concatenate()([layers.Conv2D(16, 1)(noisy), layers.UpSampling2D(16)(embedded)])
    skip = layers.Conv2D(32, 3, padding="same", activation="swish")(x)
    x = layers.AveragePooling2D(2)(skip)
    x = layers.BatchNormalization(center=False, scale=False)(x)
    x = layers.Conv2D(64, 3, padding="same", activation="swish")(x)
    x = layers.Concatenate()([layers.UpSampling2D(interpolation="bilinear")(x), skip])
    model = keras.Model([noisy, variance], layers.Conv2D(1, 1, kernel_initializer="zeros")(x))

    def loss() -> Any:
        noise = keras.random.normal(images.shape, seed=seeds)
        angle = keras.random.uniform((BATCH, 1, 1, 1), seed=seeds) * 1.2 + 0.2
        mixed = ops.cos(angle) * images + ops.sin(angle) * noise
        return ops.mean(ops.abs(noise - model([mixed, ops.square(ops.sin(angle))], training=True)))

    return run.train(loss, lambda: model.trainable_variables)


def VAE(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """A convolutional variational autoencoder."""
    images = tf.constant(run.digits(16)[0])
    seeds = keras.random.SeedGenerator(run.seed)
    encoder = keras.Sequential(
        [layers.Conv2D(32, 3, 2, "same", activation="relu"), layers.Flatten(), layers.Dense(2 * NOISE)]
    )
    decoder = _generator()

    def loss() -> Any:
        mean, log_variance = ops.split(encoder(images), 2, axis=-1)
        sample = mean + ops.exp(0.5 * log_variance) * keras.random.normal(mean.shape, seed=seeds)
        error = ops.sum(keras.losses.binary_crossentropy(images, decoder(sample)), axis=(1, 2))
        divergence = -0.5 * ops.sum(1 + log_variance - ops.square(mean) - ops.exp(log_variance), axis=1)
        return ops.mean(error + divergence)

    return run.train(loss, lambda: [*encoder.trainable_variables, *decoder.trainable_variables])
