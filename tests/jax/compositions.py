"""Programs in which mixed precision meets the transformations and control flow of JAX. `CASES` holds them all.

A case takes `wrap`, which rewrites a function or, where the whole process is enabled, does nothing, and puts it where
it stands in the composition. It returns the function to run, its arguments, and how large the relative error may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class Case(NamedTuple):
    """A composition ready to run."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    tolerance: float = 0.03
    products: bool = True  # some product runs in 16 bits


CASES: dict[str, Callable[[Wrap], Case]] = {}


def case(make: Callable[[Wrap], Case]) -> Callable[[Wrap], Case]:
    """Add a case to the table."""
    CASES[make.__name__] = make
    return make


def normal(seed: int, *shape: int) -> Any:
    """Random numbers."""
    return jax.random.normal(jax.random.key(seed), shape)


X, W, V = normal(0, 8, 16), normal(1, 16, 16) / 4, normal(2, 16, 16) / 4
XS = normal(3, 5, 8, 16)


def net(w: Any, x: Any) -> Any:
    """Two layers and a softmax."""
    return jnp.sum(jax.nn.softmax(jax.nn.relu(x @ w) @ V) ** 2)


def smooth(w: Any, x: Any) -> Any:
    """A loss with second derivatives."""
    return jnp.sum(jnp.tanh(x @ w) ** 2)


def mesh(count: int = 2) -> Any:
    """Some CPU devices in a row."""
    return jax.make_mesh((count,), ("d",), axis_types=(AxisType.Auto,))


@case
def call(wrap: Wrap) -> Case:
    return Case(wrap(net), (W, X))


@case
def jit_outside(wrap: Wrap) -> Case:
    return Case(jax.jit(wrap(net)), (W, X))


@case
def jit_inside(wrap: Wrap) -> Case:
    return Case(wrap(jax.jit(net)), (W, X))


@case
def grad_outside(wrap: Wrap) -> Case:
    return Case(jax.grad(wrap(net)), (W, X))


@case
def grad_inside(wrap: Wrap) -> Case:
    return Case(wrap(jax.grad(net)), (W, X))


@case
def value_and_grad_with_aux(wrap: Wrap) -> Case:
    def loss(w: Any, x: Any) -> Any:
        y = jnp.tanh(x @ w)
        return jnp.mean(y**2), {"mean": y.mean(), "count": y.size}

    return Case(wrap(jax.value_and_grad(loss, has_aux=True)), (W, X))


@case
def hessian_vector_product(wrap: Wrap) -> Case:
    loss = wrap(smooth)
    return Case(lambda w, x: jax.grad(lambda w: jnp.vdot(jax.grad(loss)(w, x), V))(w), (W, X), 0.08)


@case
def forward_over_reverse(wrap: Wrap) -> Case:
    return Case(wrap(lambda w, x: jax.jvp(jax.grad(smooth), (w, x), (V, x))), (W, X), 0.08)


@case
def jvp_outside(wrap: Wrap) -> Case:
    loss = wrap(net)
    return Case(lambda w, x: jax.jvp(loss, (w, x), (V, x)), (W, X))


@case
def vjp_outside(wrap: Wrap) -> Case:
    loss = wrap(lambda w, x: jnp.tanh(x @ w))
    return Case(lambda w, x: jax.vjp(loss, w, x)[1](x), (W, X))


@case
def linearize_inside(wrap: Wrap) -> Case:
    return Case(wrap(lambda w, x: jax.linearize(smooth, w, x)[1](V, x)), (W, X), 0.05)


@case
def vmap_outside(wrap: Wrap) -> Case:
    return Case(jax.vmap(wrap(net), (None, 0)), (W, XS))


@case
def vmap_of_grad_inside(wrap: Wrap) -> Case:
    return Case(wrap(jax.vmap(jax.grad(net), (None, 0))), (W, XS))


@case
def jacobian_inside(wrap: Wrap) -> Case:
    return Case(wrap(jax.jacrev(lambda w: jnp.tanh(X[:2] @ w).sum(0))), (W,))


@case
def recurrent_scan_inside_grad(wrap: Wrap) -> Case:
    def loss(w: Any, xs: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ w + x)
            return h, h.sum()

        h, sums = lax.scan(cell, jnp.zeros((8, 16)), xs)
        return jnp.sum(h**2) + sums.mean()

    return Case(wrap(jax.grad(loss)), (W, XS))


@case
def grad_of_scan(wrap: Wrap) -> Case:
    loss = wrap(lambda w, xs: jnp.sum(lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), X, xs)[0] ** 2))
    return Case(jax.grad(loss), (W, XS))


@case
def layers_in_a_scan(wrap: Wrap) -> Case:
    def loss(ws: Any, x: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            return x + jax.nn.gelu(x @ w) @ w.T, None

        return jnp.mean(lax.scan(jax.checkpoint(layer), x, ws)[0] ** 2)

    return Case(wrap(jax.grad(loss)), (normal(4, 3, 16, 32) / 6, X))


@case
def scan_in_reverse_with_integers(wrap: Wrap) -> Case:
    def loop(w: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, count = carry
            return (jnp.tanh(x @ w + h), count + 1), (h.argmax(), count)

        return lax.scan(step, (X, 0), xs, reverse=True, unroll=2)[0]

    return Case(wrap(loop), (W, XS))


@case
def training_in_a_scan(wrap: Wrap) -> Case:
    def train(w: Any, xs: Any) -> Any:
        def step(w: Any, x: Any) -> Any:
            return w - 1e-3 * jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) @ V) ** 2))(w), None

        return lax.scan(step, w, xs)[0] - w  # what it learned

    return Case(wrap(train), (W, normal(5, 100, 8, 16)))


@case
def gradients_summed_in_a_scan(wrap: Wrap) -> Case:
    def total(w: Any, xs: Any) -> Any:
        def step(sums: Any, x: Any) -> Any:
            return sums + jax.grad(smooth)(w, x), None

        return lax.scan(step, jnp.zeros_like(w), xs)[0]

    return Case(wrap(total), (W, normal(6, 200, 8, 16)), 0.01)


@case
def while_loop(wrap: Wrap) -> Case:
    def loop(w: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: (c[0] < 4) & (c[1][0, 0] < 9), lambda c: (c[0] + 1, jnp.tanh(c[1] @ w)), (0, x))

    return Case(wrap(loop), (W, X))


@case
def fori_loop_with_a_bound_that_is_traced(wrap: Wrap) -> Case:
    return Case(wrap(lambda w, x, n: lax.fori_loop(0, n, lambda i, c: jnp.tanh(c @ w) + i * 0.1, x)), (W, X, 3))


@case
def jvp_of_while(wrap: Wrap) -> Case:
    loop = wrap(lambda w, x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1] @ w)), (0, x))[1])
    return Case(lambda w, x: jax.jvp(loop, (w, x), (V, x)), (W, X))


@case
def cond_and_switch(wrap: Wrap) -> Case:
    def choose(p: Any, i: Any, w: Any, x: Any) -> Any:
        x = lax.cond(p, lambda x: x @ w, lambda x: x + 1.0, x)
        return lax.switch(i, [lambda x: x @ w, lambda x: x * 2.0, jnp.exp], x)

    return Case(wrap(choose), (jnp.array(True), jnp.array(1), W, X))  # noqa: FBT003 - an array of one


@case
def grad_of_cond(wrap: Wrap) -> Case:
    loss = wrap(lambda w, x: jnp.sum(lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: jnp.tanh(x @ w)) ** 2))
    return Case(jax.grad(loss), (W, X))


@case
def checkpoint_inside_grad(wrap: Wrap) -> Case:
    return Case(wrap(jax.grad(lambda w, x: jnp.sum(jax.checkpoint(lambda x: jnp.sin(x @ w) @ V)(x) ** 2))), (W, X))


@case
def grad_of_checkpoint_with_a_policy(wrap: Wrap) -> Case:
    keep = jax.checkpoint_policies.dots_saveable
    loss = wrap(lambda w, x: jnp.sum(jax.checkpoint(lambda x: jnp.sin(x @ w) @ V, policy=keep)(x) ** 2))
    return Case(jax.grad(loss), (W, X))


@case
def checkpoint_by_names(wrap: Wrap) -> Case:
    from jax.ad_checkpoint import checkpoint_name  # noqa: PLC0415 - nothing else needs it

    keep = jax.checkpoint_policies.save_only_these_names("h")
    body = jax.checkpoint(lambda x, w: jnp.sin(checkpoint_name(x @ w, "h")) @ V, policy=keep)
    return Case(wrap(jax.grad(lambda w, x: jnp.sum(body(x, w) ** 2))), (W, X))


@case
def own_jvp(wrap: Wrap) -> Case:
    @jax.custom_jvp
    def f(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w)

    f.defjvp(lambda xs, ts: (f(*xs), 2 * (1 - f(*xs) ** 2) * (ts[0] @ xs[1] + xs[0] @ ts[1])))  # twice what it is
    loss = wrap(lambda w, x: jnp.sum((f(x, w) @ V) ** 2))
    return Case(jax.grad(loss), (W, X))


@jax.custom_vjp
def own(x: Any, w: Any) -> Any:
    """A layer with a derivative rule of its own."""
    return jnp.tanh(x @ w)


def _own_forward(x: Any, w: Any) -> Any:
    y = own(x, w)
    return y, (y, x, w)


def _own_backward(kept: Any, g: Any) -> Any:
    y, x, w = kept
    d = 3 * g * (1 - y * y)  # three times what it is: whoever derives it otherwise is noticed
    return d @ w.T, x.T @ d


own.defvjp(_own_forward, _own_backward)


@case
def own_vjp_inside_grad(wrap: Wrap) -> Case:
    return Case(wrap(jax.grad(lambda w, x: jnp.sum((own(x, w) @ V) ** 2))), (W, X))


@case
def grad_of_own_vjp(wrap: Wrap) -> Case:
    loss = wrap(lambda w, x: jnp.sum((own(x, w) @ V) ** 2))
    return Case(jax.grad(loss), (W, X))


@case
def shard_map_with_psum(wrap: Wrap) -> Case:
    def shard(w: Any, x: Any) -> Any:
        return lax.psum(jnp.sum(jnp.tanh(x @ w) ** 2), "d")

    mapped = jax.shard_map(
        shard, mesh=mesh(), in_specs=(PartitionSpec(), PartitionSpec("d")), out_specs=PartitionSpec()
    )
    return Case(wrap(jax.grad(lambda w, x: jnp.sum(mapped(w, x)))), (W, X))


@case
def grad_of_shard_map(wrap: Wrap) -> Case:
    def shard(w: Any, x: Any) -> Any:
        return lax.all_gather(jnp.tanh(x @ w), "d", tiled=True)

    specs = (PartitionSpec(), PartitionSpec("d"))
    mapped = jax.shard_map(shard, mesh=mesh(4), in_specs=specs, out_specs=PartitionSpec(), check_vma=False)
    loss = wrap(lambda w, x: jnp.sum(mapped(w, x) ** 2))
    return Case(jax.jit(jax.grad(loss)), (W, X))


@case
def ring_of_shards(wrap: Wrap) -> Case:
    def shard(w: Any, x: Any) -> Any:
        def turn(_: Any, x: Any) -> Any:
            return lax.ppermute(jnp.tanh(x @ w), "d", [(0, 1), (1, 0)])

        return lax.fori_loop(0, 3, turn, x)

    specs = (PartitionSpec(), PartitionSpec("d"))
    mapped = jax.shard_map(shard, mesh=mesh(), in_specs=specs, out_specs=PartitionSpec("d"), check_vma=False)
    return Case(jax.jit(wrap(mapped)), (W, X))


@case
def sharding_constraint(wrap: Wrap) -> Case:
    rows = NamedSharding(mesh(), PartitionSpec("d"))

    def loss(w: Any, x: Any) -> Any:
        return jnp.sum(lax.with_sharding_constraint(jnp.tanh(x @ w), rows) ** 2)

    return Case(jax.jit(wrap(jax.grad(loss))), (W, jax.device_put(X, rows)))


@case
def jit_with_shardings(wrap: Wrap) -> Case:
    rows, everywhere = NamedSharding(mesh(), PartitionSpec("d")), NamedSharding(mesh(), PartitionSpec())
    inner = jax.jit(lambda w, x: x @ w, in_shardings=(everywhere, rows), out_shardings=rows)
    return Case(wrap(inner), (W, X))


@case
def collectives_by_name_in_vmap(wrap: Wrap) -> Case:
    function = jax.vmap(lambda x, w: x @ w - lax.pmean(x @ w, "batch"), (0, None), axis_name="batch")
    return Case(wrap(function), (XS, W))


@case
def pytrees_and_static_arguments(wrap: Wrap) -> Case:
    def function(p: Any, mode: str, x: Any = None) -> Any:
        return {"y": x @ p["w"] if mode == "dot" else x, "none": None, "mode": mode}

    wrapped = wrap(function)

    def run(p: Any, x: Any) -> Any:
        found = wrapped(p, "dot", x=x)
        assert (found["mode"], found["none"]) == ("dot", None)
        return found["y"]

    return Case(run, ({"w": W}, X))


@case
def random_numbers(wrap: Wrap) -> Case:
    def function(w: Any, x: Any, key: Any) -> Any:
        kept = jax.random.bernoulli(key, 0.5, x.shape)
        return jnp.where(kept, x @ w, 0.0) @ V + jax.random.normal(key, x.shape)

    return Case(wrap(function), (W, X, jax.random.key(7)))


@case
def embedding(wrap: Wrap) -> Case:
    rows = jnp.arange(8)
    return Case(wrap(jax.grad(lambda e, w: jnp.sum((e[rows] @ w) ** 2), (0, 1))), (normal(8, 50, 16), W))


@case
def convolution_and_pooling(wrap: Wrap) -> Case:
    def loss(k: Any, x: Any) -> Any:
        y = lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.mean(y**2)

    return Case(wrap(jax.value_and_grad(loss)), (normal(9, 3, 3, 4, 8) / 6, normal(10, 2, 8, 8, 4)))


@case
def linear_algebra_stays_float32(wrap: Wrap) -> Case:
    return Case(wrap(lambda w: jnp.linalg.inv(w @ w.T + jnp.eye(16) * 5)), (W,), 1e-2)


@case
def sort_top_k_and_sums(wrap: Wrap) -> Case:
    def function(w: Any, x: Any) -> Any:
        y = x @ w
        return jnp.sort(y), lax.top_k(y, 3)[0], jnp.cumsum(y, 1), lax.associative_scan(jnp.add, y)

    return Case(wrap(function), (W, X))


@case
def fourier_transform_stays_float32(wrap: Wrap) -> Case:
    return Case(wrap(lambda w, x: jnp.abs(jnp.fft.rfft(x @ w))), (W, X))


@case
def highest_precision_is_left_alone(wrap: Wrap) -> Case:
    return Case(wrap(lambda w, x: jnp.dot(x, w, precision="highest")), (W, X), 0.0, products=False)


@case
def a_print_inside(wrap: Wrap) -> Case:
    def function(w: Any, x: Any) -> Any:
        y = x @ w
        jax.debug.callback(lambda _: None, y.sum())
        return jnp.tanh(y)

    return Case(wrap(function), (W, X))


@case
def a_callback_to_numpy(wrap: Wrap) -> Case:
    def function(w: Any, x: Any) -> Any:
        y = x @ w
        return jax.pure_callback(lambda y: y * 2, jax.ShapeDtypeStruct(y.shape, y.dtype), y) @ V

    return Case(jax.jit(wrap(function)), (W, X))


@case
def complex_and_double_neighbours(wrap: Wrap) -> Case:
    def function(w: Any, x: Any) -> Any:
        y = x @ w
        return jnp.real(lax.complex(y, y) * 2j), (y > 0).sum(), y.astype(jnp.float16) * 2

    return Case(wrap(function), (W, X))


@case
def closed_over_values(wrap: Wrap) -> Case:
    def outer(w: Any, x: Any) -> Any:
        return wrap(lambda w: jnp.sum(jnp.tanh(x @ w)))(w)  # x is traced outside

    return Case(jax.jit(jax.grad(outer)), (W, X))
