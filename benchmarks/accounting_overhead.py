"""Time that counting and logging skipped steps takes: a training step with it, and with the loss scale alone.

Run `python benchmarks/accounting_overhead.py`. The two steps are run in turns in one process; the first ratio is the
median over rounds of the ratio within a round. Counting takes very little of a step, so on a busy machine that ratio is
mostly noise. The last column is therefore measured without training: the time of many updates of scale and counters,
minus the time of as many updates of the scale alone, relative to the step. In the output, "books" are the counters and
the log. `--clock cpu` measures the CPU time of this process instead of wall time.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, the other benchmark is still `benchmarks....`

import keras
import tensorflow as tf
from benchmarks import scaler_overhead
from benchmarks.scaler_overhead import CLOCKS, MODELS, Clock, Step, rounds, training_step

import mixdown
from mixdown.keras3.optimizer import Keras3LossScaleOptimizer
from mixdown.scaling import State, after
from mixdown.tensorflow.loss_scaling.branching import where

LINE = "{:>9} | {:<5} | {:>13} | {:>12} | {:>10}"
TIMES = 200  # updates of the counters in one call, so that they take long enough to be measured


class WithoutBooks(Keras3LossScaleOptimizer):
    """The loss scale moves, but nothing is counted or logged."""

    def count_step(self, finite: Any, *, where: Any) -> None:
        """Move the scale."""
        weights = self.state_weights()
        news = after(self.law, State(*map(self.backend.tensor, weights)), finite=finite, where=where)
        for weight, new in zip(weights, news, strict=True):
            weight.assign(new)

    def log_skip(self, *_: Any, **__: Any) -> None:
        """Log nothing."""


WRAPPERS: dict[str, Callable[[Any], Any]] = {"without": WithoutBooks, "with": mixdown.LossScaleOptimizer}


def books_alone(wrapper: str, *, jit: bool) -> Step:
    """Good steps entered again and again, with no training around them."""
    optimizer = WRAPPERS[wrapper](keras.optimizers.SGD())

    @tf.function(jit_compile=jit)
    def enter() -> tf.Tensor:
        for _ in tf.range(TIMES):
            optimizer.count_step(finite=True, where=where)
        return optimizer.backend.tensor(optimizer.dynamic_scale)

    return lambda: enter().numpy()


def row(variables: int, count: int, clock: Clock, *, jit: bool) -> str:
    """One line of the table."""
    steps = {name: training_step(name, *MODELS[variables], jit=jit) for name in WRAPPERS}
    steps |= {f"books {name}": books_alone(name, jit=jit) for name in WRAPPERS}
    rounds(steps, 3, clock)  # trace, compile, warm up
    times = rounds(steps, count, clock)
    step = median(each["without"] for each in times)
    ratio = median(each["with"] / each["without"] for each in times)
    alone = median(each["books with"] - each["books without"] for each in times) / TIMES
    mode = "jit" if jit else "graph"
    return LINE.format(variables, mode, f"{step * 1e3:.1f} ms", f"{ratio:.4f}", f"{alone / step:.4%}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What accounting costs in a training step")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--variables", type=int, nargs="+", default=sorted(MODELS), choices=sorted(MODELS))
    parser.add_argument("--modes", nargs="+", default=["graph", "jit"], choices=["graph", "jit"])
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    asked = parser.parse_args()
    scaler_overhead.WRAPPERS |= WRAPPERS
    print(f"Residual MLPs, Adam; {asked.clock} time, median of {asked.rounds} rounds;", end=" ")
    print(f"keras {keras.__version__}, tensorflow {tf.__version__}")
    print(LINE.format("variables", "mode", "without books", "with/without", "books/step"))
    for variables in asked.variables:
        for mode in asked.modes:
            print(row(variables, asked.rounds, CLOCKS[asked.clock], jit=mode == "jit"), flush=True)
            keras.backend.clear_session()


if __name__ == "__main__":
    main()
