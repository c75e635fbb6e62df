"""`mixdown demo`: what mixed precision does for a training, on any machine. Every number is computed when it runs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mixdown.cli.common import Command, add_low_option, write_line
from mixdown.cli.demo_children import results
from mixdown.cli.interrupt import ending_at_once
from mixdown.errors import MixdownError

MOST_SKIPS = 6
NOTES = """examples:
  mixdown demo
  mixdown demo --data cifar10 --epochs 1 --low bfloat16

exit codes:
  0    done
  2    the data or scikit-learn are missing, or a part failed
  130  ended by Ctrl-C
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", default="digits", help="digits (bundled), cifar10, fashion-mnist, or an .npz file")
    parser.add_argument("--epochs", type=int, default=6, help="how often to go through the data (default: 6)")
    add_low_option(parser)
    parser.add_argument("--html", default="mixdown-report.html", help="where the report goes")


def demo(options: argparse.Namespace) -> int:
    """Run the parts one after the other, and print what came out."""
    with ending_at_once():
        _check(options)
        started, low = time.perf_counter(), options.low
        page = str(Path(options.html).resolve())
        found = results(options.data, str(options.epochs), low, page)
        write_line("1. Bad batches. The same network, weights and batches; one batch in twenty holds a NaN.")
        _print(_rescued(next(found), low))
        write_line("\n2. Memory. Eight convolutions on images of 256 x 256 pixels, without oneDNN.")
        full, mixed = next(found)
        _print(_remembered(full, mixed, low))
        write_line("\n3. Speed, here. Plans for a compiled step, mostly element-wise, timed while it trains:")
        _print(f"  {kept}." for kept in next(found))
        write_line(
            "\n4. Other machines. Predicted for the same convolutions, batches of 32, compiled by XLA, as Keras does\n"
            "   on one GPU; nothing of this was measured."
        )
        last = next(found)
        _print(_predicted(last["predicted"]))
        _print(_closing(last["closed_gate"], low))
        write_line(f"\nEvery op with its reason, every cast and every skipped step: {options.html}")
        write_line(f"That took {time.perf_counter() - started:.0f} s.")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse what cannot work before TensorFlow is loaded, which takes long."""
    if options.epochs < 1:
        raise MixdownError(f"--epochs must be at least 1, got {options.epochs}.")
    if find_spec("tensorflow") is None:
        raise MixdownError("The demonstration needs TensorFlow: pip install 'mixdown[tensorflow,demo]'.")
    from mixdown.cli.demo_data import KERAS, load  # noqa: PLC0415 - other commands need no NumPy

    if options.data not in KERAS:
        load(options.data)


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        write_line(line)


def _rescued(runs: Sequence[dict[str, Any]], low: str) -> Iterator[str]:
    """What became of the weights under each tool, the skipped steps by name, and the accuracy beside float32."""
    named = {"float32": "float32", f"mixed_{low}": f"Keras mixed_{low}", low: f"mixdown {low}"}
    yield f"\n  {'':<28}{'batches':<9}{'weights':<10}{'accuracy':>8}"
    for run in runs:
        weights = "finite" if run["finite"] else "NaN"
        yield f"  {named[run['how']]:<28}{'bad' if run['bad'] else 'clean':<9}{weights:<10}{run['accuracy']:>8.3f}"
    by = {(run["how"], run["bad"]): run for run in runs}
    clean, mixed, rescued = by["float32", False], by[low, False], by[low, True]
    yield f"  mixdown skipped {len(rescued['skips'])} of {rescued['steps']} steps{_listed(rescued['skips'])}."
    lost = [named[run["how"]] for run in runs if not run["finite"]]
    if lost:
        yield f"  Lost for good: {' and '.join(lost)}. The bad batches run on two replicas, the NaN on the second."
    gap, rescue_gap = (each["accuracy"] - clean["accuracy"] for each in (mixed, rescued))
    yield f"  Accuracy against float32 with clean batches: mixdown {gap:+.3f}, with bad batches {rescue_gap:+.3f}."


def _listed(skips: Sequence[Sequence[Any]]) -> str:
    if not skips:
        return ""
    more = ", ..." if len(skips) > MOST_SKIPS else ""
    variable = f"; first seen in {skips[0][1]}" if skips[0][1] else ""
    return f" (steps {', '.join(str(step) for step, _ in skips[:MOST_SKIPS])}{more}{variable})"


def _remembered(full: int, mixed: int, low: str) -> Iterator[str]:
    if min(full, mixed) <= 0:
        yield "  This system does not say how much memory a process took."
        return
    yield (
        f"  Beyond TensorFlow itself, training took {full / 1e6:.0f} MB in float32 and {mixed / 1e6:.0f} MB in {low}, "
        f"{mixed / full:.2f} of it."
    )


def _predicted(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    first = found[0]
    yield f"  {first['share']} of the matrix arithmetic in 16 bits; {_ratio(first)} of the bytes of float32."
    for each in found:
        yield (
            f"  {each['device']:<5} predicted: float32 {each['float32'] * 1e3:.2f} ms, mixed "
            f"{each['mixed'] * 1e3:.2f} ms a step, {each['float32'] / each['mixed']:.2f} times as fast"
        )


def _ratio(each: dict[str, Any]) -> str:
    return f"{each['bytes'] / each['float32_bytes']:.2f}"


def _closing(closed_gate: str, low: str) -> Iterator[str]:
    """Why this machine takes no part by default, if it does not."""
    if closed_gate:
        yield (
            f"  This machine gains little: {closed_gate}, and CPUs compute in {low} by converting each value.\n"
            f"  That is why only GPUs of compute capability 7.0 and up take part unless you say otherwise."
        )


COMMAND = Command(
    "show what mixed precision does: bad batches, memory, accuracy, speed, and times predicted for GPUs",
    NOTES,
    _add_arguments,
    demo,
)
