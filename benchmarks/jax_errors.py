"""How far gradients and updates in 16 bits are from float64: mixdown beside models annotated by hand.

    python benchmarks/jax_errors.py [--models ViT,MLP] [--seeds 5] [--low float16]

Every model is small and takes one step on the CPU with XLA's default options. Printed are the relative errors of all
gradients together, and of the change of all parameters, as means over the seeds, and mixdown's divided by those of the
model annotated by hand: of the means, and the largest over the seeds. In float16 all variants scale the loss by 2**10.
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
LINE = "{:<14} {:>10} {:>10} {:>10} {:>8} {:>8} {:>10}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train one step, model by model and seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated (default: all)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--low", default="bfloat16", help="the 16-bit dtype (default: %(default)s)")
    options = parser.parse_args(arguments)
    print(LINE.format("model", "float32", "by hand", "mixdown", "mean", "largest", "update"), flush=True)
    for name in options.models.split(","):
        variants = made(name, options.low)
        rows = np.array([errors(variants, seed) for seed in range(options.seeds)])
        ratios = rows[:, 2] / rows[:, 1]
        updates = rows[:, 5] / rows[:, 4]
        shown = [f"{value:.2e}" for value in rows[:, :3].mean(0)]
        totals = (rows[:, 2].mean() / rows[:, 1].mean(), ratios.max(), updates.mean())
        print(LINE.format(name, *shown, *(f"{value:.3f}" for value in totals)), flush=True)


def made(name: str, low: str) -> list[tuple[Model, Any]]:
    """The model in float64, in float32, by hand, and by mixdown, each with its compiled step."""
    exact, plain, by_hand = (MODELS[name](dtype, True) for dtype in ("float64", None, low))  # noqa: FBT003 - small
    scale = 1024.0 if low == "float16" else 1.0
    steps = [(plain, step_of(plain, scale)), (by_hand, step_of(by_hand, scale))]
    mixed = mixdown.jax.rewrite(step_of(plain, scale), Policy(rules="jax", low=low, devices="all"))
    return [(model, jax.jit(step)) for model, step in ((exact, step_of(exact, scale)), *steps, (plain, mixed))]


def errors(variants: list[tuple[Model, Any]], seed: int) -> list[float]:
    """The errors of gradient and then of update: in float32, by hand, and by mixdown."""
    key, (plain, exact) = jax.random.key(seed), variants[0]
    with jax.enable_x64(False):  # noqa: FBT003 - whether
        start, batch = plain.init(key), plain.batch(key)
        found = [taken(step, start, batch) for _, step in variants[1:]]
    wanted = taken(exact, cast(start, jnp.float64), cast(batch, jnp.float64))
    return [difference(each[part], wanted[part]) for part in (0, 1) for each in found]


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
