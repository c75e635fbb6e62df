"""`enable` acts where programs are lowered: what sees float32, what is compiled again, and what is said."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from tests.jax.compositions import V, W, X
from tests.jax.products import products_of

import mixdown.jax as mixed
from mixdown import Policy
from mixdown.errors import MixdownError, MixdownWarning, PolicyError
from mixdown.jax import lowering, private

POLICY = Policy(rules="jax", low="bfloat16", devices="all")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    if lowering.in_force().value is not None:
        mixed.disable()


def loss(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ w) @ V)


def test_traces_and_exports_see_float32() -> None:
    mixed.enable(POLICY)
    assert products_of(jax.make_jaxpr(jax.grad(loss))(W, X)) == {"float32": 4}
    text = export.export(jax.jit(loss))(W, X).mlir_module()
    assert "bf16" not in text
    assert "bf16" in jax.jit(loss).lower(W, X).as_text()


def test_a_block_is_for_its_thread_and_ends() -> None:
    function = jax.jit(loss)
    before = np.asarray(function(W, X))
    found = []
    with mixed.rewriting(POLICY):
        inside = np.asarray(function(W, X))
        thread = threading.Thread(target=lambda: found.append(np.asarray(function(W, X))))
        thread.start()
        thread.join()
    assert inside != before
    assert found == [before]
    assert np.asarray(function(W, X)) == before


def test_a_program_is_planned_once_for_each_policy() -> None:
    function = jax.jit(lambda w, x: loss(w, x) * 3)
    count = len(lowering.seen)
    for policy in (POLICY, Policy(rules="jax", low="float16", devices="all")):
        mixed.enable(policy)
        for _ in range(3):
            function(W, X)
    assert [each.policy.low for each in list(lowering.seen)[count:]] == ["bfloat16", "float16"]


def test_a_program_in_which_nothing_can_be_16_bit_is_left_out() -> None:
    count = len(lowering.seen)
    with mixed.rewriting(POLICY.with_keep(scope="head")):
        jax.jit(lambda x: jnp.tanh(x) * 13)(X)
    assert len(lowering.seen) == count
    with mixed.rewriting(POLICY.with_allow("tanh")):
        jax.jit(lambda x: jnp.tanh(x) * 13)(X)
    assert [op.name for op in mixed.report().graphs[-1].low_ops] == ["tanh"]


def test_a_policy_for_tensorflow_gets_the_rules_for_jax() -> None:
    mixed.enable(Policy(low="bfloat16", devices="all"))
    assert lowering.in_force().value == POLICY


def test_a_machine_that_the_policy_leaves_out_is_warned_of_once() -> None:
    mixed.warnings.warn_idle.cache_clear()
    mixed.enable()
    with pytest.warns(MixdownWarning, match="JAX runs on the CPU, and the policy is for GPU and TPU only"):
        jax.jit(lambda w, x: loss(w, x) * 5)(W, X)
    jax.jit(lambda w, x: loss(w, x) * 7)(W, X)  # a second warning would be an error


def test_to_disable_what_is_not_enabled_is_warned_of() -> None:
    with pytest.warns(MixdownWarning, match="not enabled for JAX: there is nothing to disable"):
        mixed.disable()


def test_what_cannot_be_rewritten_stays_float32_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(lowering, "plan_program", broken)
    mixed.enable(POLICY)
    function = jax.jit(lambda w, x: loss(w, x) * 11)
    with pytest.warns(MixdownWarning, match="stays float32, because mixdown could not rewrite it: ZeroDivisionError"):
        got = function(W, X)
    mixed.disable()
    assert got == function(W, X)
    assert mixed.report().graphs[-1].reason == "ZeroDivisionError: a bug"


def test_a_jax_that_cannot_be_hooked_into_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "missing_for_hook", lambda: "jax.make_user_context")
    monkeypatch.setattr("mixdown.jax.switch.install", lowering.install.__wrapped__)
    with pytest.raises(MixdownError, match=r"which has no jax.make_user_context; .*rewrite\(function\) needs no hook"):
        mixed.enable(POLICY)
    assert products_of(mixed.rewritten_jaxpr(loss, W, X, policy=POLICY)) == {"bfloat16": 2}


def test_a_primitive_in_a_policy_for_tensorflow_is_refused_with_the_way_out() -> None:
    with pytest.raises(PolicyError, match=r"TensorFlow has no op kind 'dot_general', but JAX has: .*rules='jax'"):
        Policy().with_keep("dot_general")
    with pytest.raises(PolicyError, match=r"JAX has no op kind 'dot_genral' \(did you mean 'dot_general'\?\)"):
        Policy(rules="jax").with_keep("dot_genral")


def test_import_loads_no_tensorflow_and_an_unknown_name_is_refused() -> None:
    script = (
        "import sys, mixdown.jax as m; m.enable; m.rewrite; m.explain; "
        "assert not {'tensorflow', 'keras', 'mixdown.tensorflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)  # noqa: S603 - our own interpreter
    with pytest.raises(AttributeError, match="has no attribute 'enabel'; it has LossScale, "):
        _ = mixed.enabel  # type: ignore[attr-defined]
