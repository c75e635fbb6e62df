"""`mixdown.jax.rewrite` under `Policy(strategy="tuned")`: calls are timed, and what is kept is found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tuning.planted_clock import low_is_faster, plant

import mixdown
from mixdown.jax import functions
from mixdown.tuning import memory

if TYPE_CHECKING:
    from pathlib import Path

POLICY = mixdown.Policy(low="bfloat16", rules="jax", devices="all", strategy="tuned")
X = np.full((8, 8), 1 / 3, "float32")


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache folder, and a clock by which whatever is 16-bit takes 0.8 of float32."""
    monkeypatch.setenv(memory.VARIABLE, str(tmp_path))
    plant(monkeypatch, functions, low_is_faster)


def step(weights: Any, x: Any) -> Any:
    def loss(weights: Any) -> Any:
        return jnp.mean(jax.nn.relu(x @ weights) @ weights)

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.1 * gradient, value


def test_a_step_is_tuned_and_the_next_run_starts_with_the_choice(caplog: pytest.LogCaptureFixture) -> None:
    exact, loss = jax.jit(step)(X, X)
    tuned = mixdown.jax.rewrite(jax.jit(step), POLICY)
    with caplog.at_level("INFO", "mixdown"):
        for _ in range(200):
            weights, value = tuned(X, X)
            np.testing.assert_allclose(weights, exact, rtol=0.02)
            np.testing.assert_allclose(value, loss, rtol=0.02)
        again = mixdown.jax.rewrite(jax.jit(step), POLICY)(X, X)
    kept = [record.getMessage() for record in caplog.records if "kept" in record.getMessage()]
    assert len(kept) == 2
    assert "kept bfloat16" in kept[0]
    assert "0.80 of float32" in kept[0]
    assert "as in an earlier run, kept bfloat16" in kept[1]
    assert float(again[1]) == float(value)
    assert float(value) != float(loss)


def test_arguments_may_be_donated() -> None:
    tuned = mixdown.jax.rewrite(jax.jit(step, donate_argnums=0), POLICY)
    weights = jnp.asarray(X)
    for _ in range(30):
        weights, _ = tuned(weights, X)
    assert np.isfinite(weights).all()


def test_what_is_traced_itself_is_not_timed() -> None:
    outer = jax.jit(mixdown.jax.rewrite(step, POLICY))
    for _ in range(3):
        outer(X, X)
    assert not memory.folder().exists()


def test_a_function_that_no_plan_changes_is_not_tuned() -> None:
    plain = mixdown.jax.rewrite(jax.jit(lambda x: x + 1), POLICY)
    for _ in range(3):
        plain(X)
    assert not memory.folder().exists()


@pytest.mark.parametrize("enter", [mixdown.jax.enable, lambda policy: mixdown.jax.rewriting(policy).__enter__()])
def test_the_hook_cannot_time_calls_and_says_what_can(enter: Any) -> None:
    with pytest.raises(mixdown.PolicyError, match=r"mixdown\.jax\.rewrite\(jax\.jit\(step\), policy\)"):
        enter(POLICY)
