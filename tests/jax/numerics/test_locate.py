"""`locate` names the planted op of every program, in one run, with its line, its layer and what it read."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from tests.jax.numerics.planted import LARGE, PLANTED, SMALL
from tests.jax.numerics.planted import __file__ as planted_module

import mixdown.jax
from mixdown.core import Policy

FLOAT16 = Policy(low="float16", rules="jax", devices="all")


def locate(fn: Any, *args: Any) -> Any:
    return mixdown.jax.locate(fn, *args, policy=FLOAT16)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_op_is_named(name: str) -> None:
    case = PLANTED[name]
    found = locate(case.program, *case.args)
    assert found is not None
    assert (found.kind, found.layer, found.backward) == (case.kind, "planted", case.backward)
    assert found.op.removeprefix("gradients/").startswith(f"planted/{case.kind}")
    assert found.source.startswith(case.line)
    assert found.iteration == case.iteration
    assert found.float32 is case.float32
    sizes = [abs(each) for port in found.inputs for each in (port.lowest, port.highest) if each is not None]
    assert max(sizes) == pytest.approx(case.largest, rel=1e-3)
    assert sum(port.infs + port.nans for port in found.outputs) > 0


def test_there_are_twenty_in_loops_remat_and_shards() -> None:
    assert len(PLANTED) >= 20
    for word in ("scan", "while", "remat", "shards"):
        assert sum(word in name for name in PLANTED) >= 2, word


@pytest.mark.parametrize("name", ["exponential", "scan_in_a_scan"])
def test_it_takes_one_run(name: str) -> None:
    case, runs = PLANTED[name], list[int]()

    def program(*args: Any) -> Any:
        jax.debug.callback(runs.append, 1)
        return case.program(*args)

    assert locate(program, *case.args) is not None
    jax.effects_barrier()
    assert len(runs) == 1


def test_a_cast_that_overflows_is_told_from_the_op_that_reads_it() -> None:
    found = locate(PLANTED["argument_that_does_not_fit"].program, jnp.full([4, 4], 1e6), SMALL)
    assert found.cast == "args[0]"
    assert "planted/dot_general (dot_general) in the forward pass reads args[0], which does not fit float16." in str(
        found
    )


def test_the_cast_before_a_loop_is_told_from_the_op_inside() -> None:
    def layer(h: Any, w: Any) -> Any:
        with jax.named_scope("inside"):
            return h @ w, None

    found = locate(lambda x, ws: jax.lax.scan(layer, x, ws)[0], SMALL * 1e9, jnp.stack([SMALL] * 3))
    assert (found.op, found.cast, found.float32) == ("inside/dot_general", "args[0]", False)


def test_keeping_the_op_as_advised_mends_it() -> None:
    x, w = {"x": LARGE}, [LARGE]
    found = locate(lambda x, w: jnp.tanh(x["x"] @ w[0]), x, w)
    assert f"keep it in float32 with policy.with_keep('dot_general', name='^{found.op}$')" in str(found)
    assert [each.name for each in found.inputs] == ["args[0]['x']", "args[1][0]"]
    kept = FLOAT16.with_keep("dot_general", name=f"^{found.op}$")
    assert mixdown.jax.locate(lambda x, w: jnp.tanh(x["x"] @ w[0]), x, w, policy=kept) is None


def test_what_stays_finite_is_not_reported() -> None:
    assert locate(lambda x: jnp.tanh(x @ x), SMALL) is None


def test_infinities_that_the_program_writes_down_are_no_fault() -> None:
    def attention(x: Any) -> Any:
        return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones_like(x)) > 0, x @ x, -jnp.inf))

    assert locate(attention, SMALL) is None


def test_an_argument_that_is_not_finite_is_named() -> None:
    found = locate(lambda x: jnp.tanh(x["a"]) * jnp.sum(x["b"]), {"a": SMALL, "b": SMALL.at[1, 1].set(jnp.nan)})
    assert (found.op, found.came_in) == ("args[0]['b']", True)
    assert "args[0]['b'] (argument) is not finite to begin with" in str(found)


def test_the_later_ones_are_listed() -> None:
    found = locate(lambda x: jnp.log(x - x) + jnp.sqrt(-x), SMALL)
    assert (found.op, found.others) == ("log", ("sqrt",))


def test_the_policy_in_force_is_the_default() -> None:
    with mixdown.jax.rewriting(FLOAT16):
        found = mixdown.jax.locate(lambda x: x @ x, LARGE)
    assert found is not None
    assert (found.dtype, found.float32) == ("float16", False)


def test_what_is_no_array_is_a_constant_of_the_program() -> None:
    found = locate(lambda act, x, flag: act(x @ x) if flag == "yes" else x, jnp.tanh, LARGE, "yes")
    assert (found.kind, found.inputs[0].name) == ("dot_general", "args[1]")


def test_16_bits_of_the_users_own_have_no_verdict() -> None:
    found = locate(lambda x: x.astype(jnp.float16) @ x.astype(jnp.float16), LARGE)
    assert (found.kind, found.dtype, found.float32) == ("dot_general", "float16", None)


def test_random_keys_integers_and_empty_arrays_pass_through() -> None:
    def program(key: Any, n: Any, empty: Any) -> Any:
        return jax.random.normal(key, [3]) * n, empty.sum(), jnp.arange(3) // n

    assert locate(program, jax.random.key(0), jnp.int32(2), jnp.zeros([0])) is None


def test_the_shard_that_overflows_is_found_although_all_read_the_sum() -> None:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, str(Path(planted_module).with_name("one_bad_shard.py"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own interpreter
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["planted/dot_general 2 60000.0 ()", "None"]
