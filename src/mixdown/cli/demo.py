"""`mixdown demo`: the same small network trained in float32 and mixed, side by side."""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mixdown.cli.common import Command, add_low_option, write_line
from mixdown.errors import MixdownError

MOST_CHANGES = 8
EXAMPLES = """examples:
  mixdown demo
  mixdown demo --data cifar10 --epochs 2 --low bfloat16
"""


@dataclass(frozen=True)
class DemoResult:
    """What was measured in one training run."""

    accuracy: float
    step_seconds: float
    memory: int  # bytes that training took at most
    steps: int
    closed_gate: str = ""  # why the default policy does nothing on this machine
    ops: int = 0
    low_ops: int = 0
    casts: int = 0
    timeline: tuple[tuple[int, float], ...] = ()  # each change: the first step, and the loss scale from there on
    skipped: tuple[int, ...] = ()  # the steps


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", default="digits", help="digits (bundled), cifar10, fashion-mnist, or an .npz file")
    parser.add_argument("--epochs", type=int, default=8, help="how often to go through the data (default: 8)")
    add_low_option(parser)
    parser.add_argument("--html", default="mixdown-report.html", help="where the report goes")


def demo(options: argparse.Namespace) -> int:
    """Train twice, each time in a process of its own so that its memory can be measured, and compare."""
    if options.epochs < 1:
        raise MixdownError(f"--epochs must be at least 1, got {options.epochs}.")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    for line in _comparison(_trained(options, ""), _trained(options, options.low), options.low):
        write_line(line)
    write_line(f"\nEvery op with its reason, every cast and every skipped step: {options.html}")
    return 0


def _trained(options: argparse.Namespace, low: str) -> DemoResult:
    write_line(f"\nTraining in {f'mixed precision ({low})' if low else 'float32'}:")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        page = str(Path(options.html).resolve())
        return DemoResult(**processes.submit(_train, options.data, options.epochs, low, page).result())


def _train(*arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - those of `train`
    """Runs in the child process: the parent does not load TensorFlow."""
    from mixdown.cli.demo_training import train  # noqa: PLC0415 - see above

    return train(*arguments)


def _comparison(full: DemoResult, mixed: DemoResult, low: str) -> Iterator[str]:
    yield f"\n{'':<24}{'float32':>10}{'mixed':>10}"
    yield f"{'accuracy on new images':<24}{full.accuracy:>10.3f}{mixed.accuracy:>10.3f}"
    yield f"{'milliseconds a step':<24}{full.step_seconds * 1e3:>10.1f}{mixed.step_seconds * 1e3:>10.1f}"
    yield f"{'memory of training, MB':<24}{full.memory / 1e6:>10.0f}{mixed.memory / 1e6:>10.0f}"
    yield f"\n{mixed.low_ops} of {mixed.ops} float32 ops of a training step ran in {low}, with {mixed.casts} casts."
    yield f"Skipped steps: {len(mixed.skipped)} of {mixed.steps}{_listed(mixed.skipped)}."
    yield f"Loss scale, from step: {_timeline(mixed)}."
    yield f"A mixed step took {mixed.step_seconds / full.step_seconds:.2f} times as long as one in float32."
    if mixed.memory > full.memory:
        yield "It took more memory, too: so small a network has few values to halve, and the plans take some."
    yield _verdict(mixed, low)


def _listed(steps: tuple[int, ...]) -> str:
    more = ", ..." if len(steps) > MOST_CHANGES else ""
    return f" (steps {', '.join(map(str, steps[:MOST_CHANGES]))}{more})" if steps else ""


def _timeline(mixed: DemoResult) -> str:
    """The first changes of the loss scale, and the last."""
    shown = [f"{step}: {scale:g}" for step, scale in mixed.timeline]
    if len(shown) <= MOST_CHANGES:
        return ", ".join(shown)
    falls = sum(after < before for (_, before), (_, after) in pairwise(mixed.timeline))
    return f"{', '.join(shown[: MOST_CHANGES - 1])}, ..., {shown[-1]} ({len(shown) - 1} changes, {falls} down)"


def _verdict(mixed: DemoResult, low: str) -> str:
    """What the demonstration can show on this machine, and what it cannot."""
    if not mixed.closed_gate:
        return (
            f"This machine has a GPU with Tensor Cores. A network this small cannot keep them busy: "
            f"expect more from yours. `mixdown explain` lists which of its ops run in {low}."
        )
    return (
        f"What this machine can show: which ops run in {low}, how accurate that is, and how the loss scale behaves.\n"
        f"What it cannot show is speed: {mixed.closed_gate}, and CPUs compute in 16 bits by converting each value.\n"
        f"That is why only GPUs of compute capability 7.0 and up take part unless you say otherwise."
    )


COMMAND = Command("train a small network in float32 and mixed, and compare", EXAMPLES, _add_arguments, demo)
