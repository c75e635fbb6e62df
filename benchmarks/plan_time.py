"""How long one whole rewrite takes: ours (read, plan, apply) beside one call of TensorFlow's own pass.

Both run in this process, in turns, on the same graph in float16 with TensorFlow 2.21's rules, and both return a new
GraphDef. The second table shows how the time grows: one graph against ten disjoint copies of it.
"""

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, the corpus is `benchmarks.corpus`

import tensorflow as tf
from benchmarks.corpus import FULL, Sample, ensure, load
from benchmarks.oracle import placed, run_pass

from mixdown import Policy, rewrite_graph_def

POLICY = Policy(low="float16", rules="tf-2.21", strategy="grappler", devices=("CPU",))
EXAMPLE = "example: .venv/bin/python benchmarks/plan_time.py --graphs bert_base,resnet50_k3 --repeat 5"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", default=",".join(FULL), help="names of the corpus, comma-separated (default: all)")
    parser.add_argument("--repeat", type=int, default=7, help="measurements of each; the median counts (default: 7)")
    parser.add_argument("--copied", default="bert_base", help="the graph that is also taken ten times")
    options = parser.parse_args(arguments)
    names = options.graphs.split(",")
    ensure([*names, options.copied])
    print_ratios(names, options.repeat)
    print_growth(options.copied, options.repeat)


def print_ratios(names: Sequence[str], repeat: int) -> None:
    """Print, for each graph, both medians and their ratio."""
    print(f"One rewrite in float16, median of {repeat} in turns; TensorFlow {tf.__version__}\n")
    print(f"{'graph':20} {'nodes':>6} {'mixdown ms':>11} {'OptimizeGraph ms':>17} {'ratio':>6}")
    for name in names:
        sample = load(name)
        ours, theirs = medians([our_rewrite(sample), their_rewrite(sample)], repeat)
        nodes = len(sample.graph_def.node)
        print(f"{name:20} {nodes:6} {ours * 1e3:11.0f} {theirs * 1e3:17.0f} {ours / theirs:6.2f}", flush=True)


def print_growth(name: str, repeat: int) -> None:
    """Print how much longer ten copies of a graph take than one."""
    one = load(name)
    ten = copies(one, 10)
    small, large = medians([our_rewrite(one), our_rewrite(ten)], repeat)
    print(f"\nTen disjoint copies of {name}: {len(ten.graph_def.node)} nodes, {large * 1e3:.0f} ms,", end=" ")
    print(f"{large / small:.1f} times the time of one ({small * 1e3:.0f} ms)")


def our_rewrite(sample: Sample) -> Callable[[], Any]:
    """One whole call of ours."""
    return lambda: rewrite_graph_def(sample.graph_def, sample.fetches, feeds=sample.feeds, policy=POLICY)


def their_rewrite(sample: Sample) -> Callable[[], Any]:
    """One whole call of theirs, on a graph that was placed before."""
    graph_def = placed(sample.graph_def)
    return lambda: run_pass(graph_def, sample.fetches, "float16")


def medians(calls: Sequence[Callable[[], Any]], repeat: int) -> list[float]:
    """Time the calls in turns, after one round that does not count."""
    rounds = [[seconds(call) for call in calls] for _ in range(repeat + 1)]
    return [statistics.median(times) for times in zip(*rounds[1:], strict=True)]


def seconds(call: Callable[[], Any]) -> float:
    """Time one call; the garbage of the one before is not its fault."""
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def copies(sample: Sample, count: int) -> Sample:
    """Repeat a graph under prefixed names, unconnected."""
    graph_def = tf.compat.v1.GraphDef(versions=sample.graph_def.versions)
    for index in range(count):
        for node in sample.graph_def.node:
            copy = graph_def.node.add()
            copy.CopyFrom(node)
            copy.name = prefixed(node.name, index)
            copy.input[:] = [prefixed(name, index) for name in node.input]
    fetches, feeds = (
        tuple(prefixed(name, index) for index in range(count) for name in names)
        for names in (sample.fetches, sample.feeds)
    )
    return Sample(f"{sample.name} x{count}", graph_def, fetches, feeds)


def prefixed(name: str, index: int) -> str:
    """Put a node, tensor or control input under the scope of a copy."""
    return f"^copy{index}/{name[1:]}" if name.startswith("^") else f"copy{index}/{name}"


if __name__ == "__main__":
    main()
