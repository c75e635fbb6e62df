"""How far gradients and updates in 16 bits are from float64: mixdown beside models annotated by hand.

    python benchmarks/jax_errors.py [--models ViT,MLP] [--seeds 5] [--roundings 16] [--dtype float16]

Every model is small and takes one step on the CPU with XLA's default options. Printed are the relative errors of all
gradients together as means over the seeds, and mixdown's divided by those of the model annotated by hand: of the means,
and the largest over the seeds; then the same two for the change of all parameters. In float16 all variants scale the
loss by 2**10.

The error at one seed is one draw: weights that differ in less than 16 bits can tell give another. With `--roundings`
every seed is repeated with such weights; its error is their mean, and `scatter` how far single ones are from it (the
standard deviation, as a part of the mean) in the model annotated by hand.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.jax_models.zoo import MODELS, Model, cast

import mixdown.jax
from mixdown import Policy

jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - the name of an option
LINE = "{:<14} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8}"
HEADS = ("model", "float32", "by hand", "mixdown", "gradient", "largest", "update", "largest", "scatter")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train one step, model by model and seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated (default: all)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--roundings", type=int, default=1, help="of every seed (default: %(default)s)")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"), help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    print(LINE.format(*HEADS), flush=True)
    for name in options.models.split(","):
        try:
            variants = made(name, options.dtype)
            seeds = range(options.seeds)
            draws = np.array(
                [[errors(variants, seed, n, options.dtype) for n in range(options.roundings)] for seed in seeds]
            )
        except ValueError as refusal:  # of JAX: there are products that it has in float16 on GPUs only
            print(f"{name:<14} {str(refusal).splitlines()[0]}", flush=True)
            continue
        print(LINE.format(name, *columns(draws)), flush=True)


def columns(draws: Any) -> list[str]:
    """The columns of a model, given its errors by seed, rounding, and part and variant."""
    rows = draws.mean(1)
    shown = [f"{value:.2e}" for value in rows[:, :3].mean(0)]
    for hand, ours in ((1, 2), (4, 5)):
        ratios = rows[:, ours] / rows[:, hand]
        shown += [f"{rows[:, ours].mean() / rows[:, hand].mean():.3f}", f"{ratios.max():.3f}"]
    scatter = (draws[:, :, 1].std(1) / rows[:, 1]).mean()
    return [*shown, f"{scatter:.3f}" if draws.shape[1] > 1 else ""]


def made(name: str, low: str) -> list[tuple[Model, Any]]:
    """The model in float64, in float32, by hand, and by mixdown, each with its compiled step."""
    exact, plain, by_hand = (MODELS[name](dtype, True) for dtype in ("float64", None, low))  # noqa: FBT003 - small
    scale = 1024.0 if low == "float16" else 1.0
    steps = [(plain, step_of(plain, scale)), (by_hand, step_of(by_hand, scale))]
    mixed = mixdown.jax.rewrite(step_of(plain, scale), Policy(rules="jax", low=low, devices="all"))
    return [(model, jax.jit(step)) for model, step in ((exact, step_of(exact, scale)), *steps, (plain, mixed))]


def errors(variants: list[tuple[Model, Any]], seed: int, rounding: int, dtype: str) -> list[float]:
    """The errors of gradient and then of update: in float32, by hand, and by mixdown."""
    key, (_, exact), (plain, _) = jax.random.key(seed), variants[0], variants[1]
    with jax.enable_x64(False):  # noqa: FBT003 - whether
        (parameters, other), batch = plain.init(key), plain.batch(key)
        start = nudged(parameters, jax.random.fold_in(key, rounding), dtype) if rounding else parameters, other
        found = [taken(step, start, batch) for _, step in variants[1:]]
    wanted = taken(exact, cast(start, jnp.float64), cast(batch, jnp.float64))
    return [difference(each[part], wanted[part]) for part in (0, 1) for each in found]


def nudged(parameters: Any, key: Any, dtype: str) -> Any:
    """Parameters that differ from the given ones by less than the 16-bit dtype can tell."""
    leaves, tree = jax.tree.flatten(parameters)
    keys = jax.random.split(key, len(leaves))
    size = float(jnp.finfo(dtype).eps) / 2
    factors = [
        1 + size * jax.random.uniform(key, leaf.shape, minval=-1) for key, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, [leaf * factor for leaf, factor in zip(leaves, factors, strict=True)])


def step_of(model: Model, scale: float) -> Any:
    """One step of gradient descent: returns the gradient and the new parameters."""

    def step(parameters: Any, other: Any, batch: Any) -> Any:
        gradient = jax.grad(lambda p: model.loss(p, other, *batch)[0] * scale)(parameters)
        gradient = jax.tree.map(lambda g: g / scale, gradient)
        return gradient, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)

    return step


def taken(step: Any, start: Any, batch: Any) -> tuple[Any, Any]:
    """Gradient and change of the parameters."""
    gradient, new = step(*start, batch)
    pairs = zip(jax.tree.leaves(new), jax.tree.leaves(start[0]), strict=True)
    return gradient, [np.float64(after) - np.float64(before) for after, before in pairs]


def difference(found: Any, wanted: Any) -> float:
    """The relative error of all leaves together."""
    one, other = (np.concatenate([np.float64(leaf).ravel() for leaf in jax.tree.leaves(t)]) for t in (found, wanted))
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


if __name__ == "__main__":
    main()
