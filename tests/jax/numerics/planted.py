"""Programs with one op planted in each that makes Inf or NaN of finite numbers. Start with `PLANTED`.

The planted op stands in the scope "planted", on a line that ends with `# here`; JAX gives a derivative the line of what
it is a derivative of. In most programs the op multiplies numbers around 300 by numbers around 300, which float16 cannot
hold; in some it overflows float32 as well. All else is small.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, PartitionSpec

LARGE, SMALL = jnp.full([4, 4], 300.0), jnp.full([4, 4], 0.01)


class Planted(NamedTuple):
    """A program: what to call it with, and what must be said of it."""

    program: Callable[..., Any]
    args: tuple[Any, ...]
    kind: str
    backward: bool
    iteration: int
    float32: bool  # whether float32 overflows too
    largest: float  # magnitude among the inputs

    @property
    def line(self) -> str:
        """The place of the planted op."""
        lines, first = inspect.getsourcelines(self.program)
        (at,) = [number for number, line in enumerate(lines, first) if line.rstrip().endswith("# here")]
        return f"{__file__}:{at},"


PLANTED: dict[str, Planted] = {}


def planted(
    *args: Any,
    kind: str = "dot_general",
    backward: bool = False,
    iteration: int = 0,
    float32: bool = False,
    largest: float = 300.0,
) -> Callable[[Any], Any]:
    """Enter a program in the table."""

    def enter(program: Any) -> Any:
        PLANTED[program.__name__] = Planted(program, args, kind, backward, iteration, float32, largest)
        return program

    return enter


def scope() -> Any:
    return jax.named_scope("planted")


def mesh() -> Any:
    return jax.make_mesh((jax.device_count(),), ("shards",), axis_types=(AxisType.Auto,))


@planted(LARGE, LARGE)
def product(x: Any, w: Any) -> Any:
    with scope():
        return x @ w  # here


@planted(LARGE, kind="exp", float32=True)
def exponential(x: Any) -> Any:
    with scope():
        return jnp.exp(x)  # here


@planted(jnp.zeros([4]), kind="log", float32=True, largest=0.0)
def logarithm_of_zero(x: Any) -> Any:
    with scope():
        return jnp.sum(jnp.log(x))  # here


@planted(jnp.full([4, 4], 1e6), SMALL, largest=1e6)
def argument_that_does_not_fit(x: Any, w: Any) -> Any:
    with scope():
        return x @ w  # here


@planted(SMALL, LARGE)
def second_layer_of_a_jitted_model(x: Any, w: Any) -> Any:
    @jax.jit
    def layer(h: Any) -> Any:
        with scope():
            return h @ w  # here

    return jax.nn.relu(layer(jax.nn.relu(x @ SMALL) + 300.0))


@planted(jnp.zeros([4]), kind="div", float32=True, largest=0.5)
def gradient_of_a_root(x: Any) -> Any:
    def root(x: Any) -> Any:
        with scope():
            return jnp.sqrt(x).sum()  # here

    return jax.grad(root)(x)


@planted(LARGE, SMALL, backward=True)
def backward_pass_of_a_steep_loss(x: Any, w: Any) -> Any:
    def loss(w: Any) -> Any:
        with scope():
            y = x @ w  # here
        return (y * 300.0).sum()

    return jax.grad(loss)(w)


@planted(SMALL, jnp.stack([SMALL, SMALL, LARGE, SMALL]), iteration=2)
def third_round_of_a_scan(x: Any, ws: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        with scope():
            return (h @ w) * 0.0 + 300.0, None  # here

    return lax.scan(layer, x, ws)[0]


@planted(SMALL, jnp.stack([SMALL, LARGE, SMALL, SMALL]), iteration=2)
def third_round_of_a_reversed_scan(x: Any, ws: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        with scope():
            return (h @ w) * 0.0 + 300.0, h  # here

    return lax.scan(layer, x, ws, reverse=True)


@planted(jnp.full([4], 10.0), kind="mul", iteration=2, float32=True, largest=1e38)
def scan_in_a_scan(x: Any) -> Any:
    def inner(c: Any, _: Any) -> Any:
        with scope():
            return c * 10.0, None  # here

    def outer(c: Any, _: Any) -> Any:
        return lax.scan(inner, c, None, length=5)[0], None

    return lax.scan(outer, x, None, length=9)[0]


@planted(LARGE, jnp.full([3, 4, 4], 0.25), backward=True)
def backward_pass_of_a_scan(x: Any, ws: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        with scope():
            return h @ w, None  # here

    def loss(ws: Any) -> Any:
        return (lax.scan(layer, x, ws)[0] * 300.0).sum()

    return jax.grad(loss)(ws)


@planted(jnp.full([4], 10.0), kind="mul", iteration=5, float32=True, largest=1e32)
def body_of_a_while_loop(x: Any) -> Any:
    def body(carry: Any) -> Any:
        with scope():
            return carry[0] + 1, carry[1] * carry[1]  # here

    return lax.while_loop(lambda carry: carry[0] < 8, body, (0, x))


@planted(jnp.float32(3.0), kind="log", iteration=3, float32=True, largest=0.0)
def condition_of_a_while_loop(x: Any) -> Any:
    def goes_on(x: Any) -> Any:
        with scope():
            return jnp.log(x) > -1.0  # here

    return lax.while_loop(goes_on, lambda x: x - 1.0, x)


@planted(SMALL, LARGE, iteration=1)
def second_round_of_a_fori_loop(x: Any, w: Any) -> Any:
    def body(_: Any, h: Any) -> Any:
        with scope():
            return (h @ w) * 0.0 + 300.0  # here

    return lax.fori_loop(0, 3, body, x)


@planted(LARGE, LARGE)
def remat(x: Any, w: Any) -> Any:
    @jax.checkpoint
    def layer(w: Any) -> Any:
        with scope():
            return jnp.sin(x @ w)  # here

    return jax.value_and_grad(lambda w: layer(w).sum())(w)


@planted(SMALL, jnp.stack([SMALL, SMALL, LARGE]), iteration=2)
def remat_in_a_scan(x: Any, ws: Any) -> Any:
    @jax.checkpoint
    def layer(h: Any, w: Any) -> Any:
        with scope():
            return jnp.sin(h @ w) * 0.0 + 300.0, None  # here

    return jax.value_and_grad(lambda ws: lax.scan(layer, x, ws)[0].sum())(ws)


@planted(LARGE, LARGE)
def branch_of_a_condition(x: Any, w: Any) -> Any:
    def taken(x: Any) -> Any:
        with scope():
            return x @ w  # here

    return lax.cond(x.sum() > 0, taken, lambda x: x, x)


@planted(LARGE, LARGE)
def function_with_its_own_jvp(x: Any, w: Any) -> Any:
    @jax.custom_jvp
    def layer(w: Any) -> Any:
        with scope():
            return x @ w  # here

    layer.defjvp(lambda primals, tangents: (layer(*primals), tangents[0]))
    return jax.value_and_grad(lambda w: layer(w).sum())(w)


@planted(SMALL, LARGE, backward=True)
def rule_of_a_function_with_its_own_vjp(x: Any, w: Any) -> Any:
    @jax.custom_vjp
    def layer(w: Any) -> Any:
        return x @ w

    def backward(w: Any, gradient: Any) -> Any:
        with scope():
            return ((gradient * 0.0 + 300.0) @ w,)

    layer.defvjp(lambda w: (layer(w), w), backward)
    return jax.grad(lambda w: layer(w).sum())(w)  # here


@planted(LARGE, LARGE)
def shards(x: Any, w: Any) -> Any:
    def layer(w: Any) -> Any:
        with scope():
            return lax.pmean(x @ w, "shards")  # here

    return jax.shard_map(layer, mesh=mesh(), in_specs=PartitionSpec(), out_specs=PartitionSpec())(w)


@planted(jnp.stack([SMALL, SMALL, LARGE]), iteration=2)
def scan_in_shards(ws: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        with scope():
            return lax.pmean(h @ w, "shards") * 0.0 + 300.0, None  # here

    run = jax.shard_map(
        lambda ws: lax.scan(layer, SMALL, ws)[0], mesh=mesh(), in_specs=PartitionSpec(), out_specs=PartitionSpec()
    )
    return jax.value_and_grad(lambda ws: run(ws).sum())(ws)


@planted(np.array([1e30, 1.0], np.float32), kind="mul", float32=True, largest=1e30)
def numpy_arguments(x: Any) -> Any:
    with scope():
        return x * x  # here
