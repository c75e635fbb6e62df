"""How long JAX programs take to be read, planned and written anew, beside JAX's own tracing of the same program.

    .venv-gpu/bin/python benchmarks/jax_plan_time.py [--models ViT,chain] [--repeat 5] [--profile]

Every program is a whole training step; nothing is compiled or run. `chain` is the worst case: layers of three tiny
equations each, which are traced quickly; the last line divides the times of 200 such layers by those of 20. Times are
milliseconds of the CPU, the least of several runs.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import jax
import jax.numpy as jnp
from benchmarks.jax_models.zoo import MODELS

from mixdown import Policy
from mixdown.core import make_plan
from mixdown.core.gc_pause import collector_paused
from mixdown.jax.programs import Program, without_dead_code
from mixdown.jax.reading.read import read

POLICY = Policy(rules="jax", low="bfloat16", devices="all")
LINE = "{:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>14}"
CHAINS = (20, 200)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time the programs one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="MLP,ViT,ResNet50,GPT-2,chain", help="comma-separated (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="show which functions the time goes to")
    options = parser.parse_args(arguments)
    print(LINE.format("program", "equations", "trace", "read", "plan", "write", "all / trace"), flush=True)
    for name in options.models.split(","):
        if name != "chain":
            report(name, full_sized(name), options)
            continue
        short, long = (report(f"chain of {length}", chain(length), options) for length in CHAINS)
        ratios = [f"{one / other:.1f}" for one, other in zip(long, short, strict=True)]
        print(LINE.format("200 / 20", "", *ratios, f"{sum(long[1:]) / sum(short[1:]):.1f}"))


def full_sized(name: str) -> tuple[Callable[..., Any], Any]:
    """The training step of a model, and the shapes of its arguments."""
    model = MODELS[name](None, False)  # noqa: FBT003 - full-sized
    key = jax.random.key(0)
    return model.step, (jax.eval_shape(model.start, key), *jax.eval_shape(model.batch, key))


def chain(length: int) -> tuple[Callable[..., Any], Any]:
    """A step of gradient descent on a network of small dense layers, and the shapes of its arguments."""

    def loss(weights: list[Any], x: Any) -> Any:
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return jnp.sum(x)

    def step(weights: list[Any], x: Any) -> Any:
        return [weight - 0.1 * change for weight, change in zip(weights, jax.grad(loss)(weights, x), strict=True)]

    shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    return step, ([shape] * length, shape)


def report(name: str, program: tuple[Callable[..., Any], Any], options: argparse.Namespace) -> list[float]:
    """Print the times of a program, and return them: tracing, reading, planning, writing."""
    runs = [once(*program) for _ in range(options.repeat)]
    times = [1e3 * min(run[part] for run in runs) for part in range(4)]
    count = len(jax.make_jaxpr(program[0])(*program[1]).eqns)
    shown = [f"{value:.1f}" for value in times]
    print(LINE.format(name, count, *shown, f"{sum(times[1:]) / times[0]:.2f}"), flush=True)
    if options.profile:
        show_profile(*program)
    return times


def once(step: Callable[..., Any], arguments: Any) -> list[float]:
    """Seconds for tracing, reading, planning and writing."""
    moments = [time.thread_time()]
    closed = jax.make_jaxpr(lambda *given: step(*given))(*arguments)  # noqa: PLW0108 - a new function: nothing is remembered of it
    moments.append(time.thread_time())
    with collector_paused():
        live = without_dead_code(closed)
        reading = read(live, accumulates=True)
        moments.append(time.thread_time())
        plan = make_plan(reading.graph, POLICY)
    moments.append(time.thread_time())
    Program(live, reading, plan).closed(differentiable=False)
    moments.append(time.thread_time())
    return [after - before for before, after in pairwise(moments)]


def show_profile(step: Callable[..., Any], arguments: Any) -> None:
    """Print the functions that take most time after tracing."""
    live = without_dead_code(jax.make_jaxpr(step)(*arguments))
    with cProfile.Profile() as profile:
        reading = read(live, accumulates=True)
        Program(live, reading, make_plan(reading.graph, POLICY)).closed(differentiable=False)
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
