"""TensorFlow Probability: a variational autoencoder, a normalizing flow, Hamiltonian Monte Carlo, Bayesian layers."""

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras
from benchmarks.zoo.training import STEPS, Run

tfd, tfb = tfp.distributions, tfp.bijectors


def TFP_VAE(run: Run) -> list[float]:  # noqa: N802 - the name of the model
    """Encoder and decoder whose outputs are distributions."""
    images = tf.constant(run.digits(8)[0].reshape(-1, 64))
    prior = tfd.MultivariateNormalDiag(tf.zeros(8), tf.ones(8))
    encoder = tf_keras.Sequential([tf_keras.layers.Dense(64, "relu"), tf_keras.layers.Dense(16)])
    decoder = tf_keras.Sequential([tf_keras.layers.Dense(64, "relu"), tf_keras.layers.Dense(64)])

    def loss() -> Any:
        mean, raw = tf.split(encoder(images), 2, -1)
        posterior = tfd.MultivariateNormalDiag(mean, tf.nn.softplus(raw) + 1e-5)
        made = tfd.Independent(tfd.Bernoulli(decoder(posterior.sample(seed=run.seed))), 1)
        return tf.reduce_mean(tfd.kl_divergence(posterior, prior) - made.log_prob(tf.round(images)))

    return run.train(loss, lambda: [*encoder.trainable_variables, *decoder.trainable_variables])


def TFP_flow(run: Run) -> list[float]:  # noqa: N802 - the name of the library
    """A masked autoregressive flow, fitted to two moons."""
    angles = run.data.uniform(0, np.pi, 256)
    side = run.data.integers(0, 2, 256) * 2 - 1
    points = tf.constant(np.stack([side * np.cos(angles) + side / 2, side * np.sin(angles)], 1).astype("float32"))
    networks = [tfb.AutoregressiveNetwork(2, hidden_units=[64, 64], activation="relu") for _ in range(3)]
    steps = [part for made in networks for part in (tfb.MaskedAutoregressiveFlow(made), tfb.Permute([1, 0]))]
    flow = tfd.TransformedDistribution(tfd.Sample(tfd.Normal(0.0, 1.0), 2), tfb.Chain(steps))
    return run.train(
        lambda: -tf.reduce_mean(flow.log_prob(points)),
        lambda: [w for made in networks for w in made.trainable_variables],
    )


def TFP_HMC(run: Run) -> list[float]:  # noqa: N802 - the name of the method
    """Sample the weights of a logistic regression; returns the negative log probability of every sample."""
    x = tf.constant(run.data.normal(size=(200, 10)).astype("float32"))
    y = tf.constant((run.data.uniform(size=200) < 0.5).astype("float32"))

    def log_probability(weights: Any) -> Any:
        likelihood = tfd.Bernoulli(tf.linalg.matvec(x, weights)).log_prob(y)
        return tf.reduce_sum(likelihood) + tf.reduce_sum(tfd.Normal(0.0, 1.0).log_prob(weights))

    kernel = tfp.mcmc.HamiltonianMonteCarlo(log_probability, step_size=0.05, num_leapfrog_steps=5)

    @tf.function(jit_compile=run.compiled)
    def chain() -> Any:
        seed = tf.constant([run.seed, 0])
        return tfp.mcmc.sample_chain(STEPS, tf.zeros(10), kernel=kernel, trace_fn=None, seed=seed)

    with run.rewriting():
        return [-float(log_probability(each)) for each in chain()]


def TFP_Bayesian_layers(run: Run) -> list[float]:  # noqa: N802 - the name of the library
    """Classify digits by layers that sample their weights."""
    images, labels = run.digits(8)
    pixels, labels = tf.constant(images.reshape(-1, 64)), tf.constant(labels)
    layers = [tfp.layers.DenseFlipout(64, "relu", seed=run.seed), tfp.layers.DenseFlipout(10, seed=run.seed)]
    model = tf_keras.Sequential(layers)

    def loss() -> Any:
        errors = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(pixels, training=True))
        return tf.reduce_mean(errors) + sum(model.losses) / 1000

    return run.train(loss, lambda: model.trainable_variables)
