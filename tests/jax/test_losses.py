"""The loss that a step reports is the loss of its weights: as float32 judges them, within the rounding of the logits.

The operands of the product are exact in bfloat16, so the logits are rounded once. To first order that changes a loss by
at most the sum of |logit| times |its derivative| times the rounding; where a loss is near 0, so are its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mixdown.jax as mixed
from mixdown import Policy

POLICY = Policy(rules="jax", low="bfloat16", devices="all")
ROUNDING = 2.0**-8
LABELS = jnp.arange(64) % 10
HOT = jax.nn.one_hot(LABELS, 10)


def by_hand(logits: Any) -> Any:
    """Cross-entropy as many write it."""
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), LABELS[:, None], 1)
    return -jnp.mean(picked)


def from_logsumexp(logits: Any) -> Any:
    """Cross-entropy from a logarithm of sums and the logit of the label."""
    return jnp.mean(jax.nn.logsumexp(logits, -1) - logits[jnp.arange(64), LABELS])


def without_care(logits: Any) -> Any:
    """Cross-entropy of probabilities."""
    return -jnp.mean(jnp.log(jnp.sum(jax.nn.softmax(logits) * HOT, -1)))


def kl(logits: Any) -> Any:
    """Divergence from smoothed labels."""
    return optax.losses.kl_divergence(jax.nn.log_softmax(logits), HOT * 0.9 + 0.01).mean()


LOSSES: dict[str, Callable[[Any], Any]] = {
    "integer labels": lambda z: optax.softmax_cross_entropy_with_integer_labels(z, LABELS).mean(),
    "one-hot labels": lambda z: optax.softmax_cross_entropy(z, HOT).mean(),
    "binary": lambda z: optax.sigmoid_binary_cross_entropy(z, HOT).mean(),
    "focal": lambda z: optax.sigmoid_focal_loss(z, HOT).mean(),
    "hinge": lambda z: optax.losses.multiclass_hinge_loss(z, LABELS).mean(),
    "log cosh": lambda z: optax.log_cosh(z, HOT * 30).mean(),
    "huber": lambda z: optax.huber_loss(z, HOT * 30).mean(),
    "divergence": kl,
    "log_softmax": by_hand,
    "logsumexp": from_logsumexp,
    "probabilities": without_care,
}
CONFIDENCE = (0.05, 1.0, 3.0)  # the surest losses are near 0


def exact(array: Any) -> Any:
    """Numbers that bfloat16 holds."""
    return array.astype(jnp.bfloat16).astype(jnp.float32)


def step(loss: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Value and derivative of a loss of one layer, and an update."""

    def run(w: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(lambda w: loss(x @ w))(w)
        return w - 0.1 * gradient, value

    return run


@pytest.mark.parametrize("name", LOSSES)
def test_the_reported_loss_is_that_of_the_weights(name: str) -> None:
    loss = LOSSES[name]
    run = jax.jit(mixed.rewrite(step(loss), POLICY))
    x = exact(HOT @ jax.random.normal(jax.random.key(0), (10, 32)) * 2 + jax.random.normal(jax.random.key(1), (64, 32)))
    for confidence in CONFIDENCE:
        w = exact(jnp.linalg.lstsq(x, HOT * 30 * confidence)[0])
        logits = x @ w
        want, slope = jax.value_and_grad(loss)(logits)
        allowed = ROUNDING * float(jnp.sum(jnp.abs(slope * logits))) + 1e-6
        _, reported = run(w, x)
        assert abs(float(reported) - float(want)) <= allowed, (confidence, float(reported), float(want), allowed)


def test_what_only_a_cross_entropy_reads_is_looked_up_in_float32() -> None:
    made = mixed.explain(step(LOSSES["integer labels"]), jnp.ones((32, 10)), jnp.ones((64, 32)), policy=POLICY).graphs[
        0
    ]
    lookup = next(op for op in made.ops if op.kind == "gather")
    assert lookup.sites[0].dtype == "float32"
    assert "reads the same value in float32, and what the two make of it meets again" in lookup.sites[0].reason
    assert np.count_nonzero([op.sites[0].dtype == "bfloat16" for op in made.ops if op.kind == "dot_general"]) == 2
