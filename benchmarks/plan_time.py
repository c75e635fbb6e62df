"""How long a complete rewrite takes (read, plan, apply), compared with one call of TensorFlow's own pass.

Both run in turns in this process, on the same graph in float16 with TensorFlow 2.21's rules, and both return a new
GraphDef. The second table compares the two strategies under the default lists: `optimal` needs shapes, which the graph
may contain (`graph.as_graph_def(add_shapes=True)`) or TensorFlow has to infer. The last lines show how the time grows:
ten disjoint copies of a graph compared with one. On a busy machine, use `--clock cpu`, which measures the CPU time of
this process.
"""

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
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
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
clock = CLOCKS["wall"]
EXAMPLE = "example: .venv/bin/python benchmarks/plan_time.py --graphs bert_base,resnet50_k3 --repeat 5"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", default=",".join(FULL), help="names of the corpus, comma-separated (default: all)")
    parser.add_argument("--repeat", type=int, default=7, help="measurements of each; the median counts (default: 7)")
    parser.add_argument("--clock", default="wall", choices=sorted(CLOCKS))
    parser.add_argument("--copied", default="bert_base", help="the graph that is also taken ten times")
    options = parser.parse_args(arguments)
    global clock  # noqa: PLW0603 - chosen once
    clock = CLOCKS[options.clock]
    names = options.graphs.split(",")
    ensure([*names, options.copied])
    print_ratios(names, options.repeat)
    print_strategies(options.copied, options.repeat)
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


def print_strategies(name: str, repeat: int) -> None:
    """Print how much longer `optimal` takes than `grappler`, with and without shapes in the graph."""
    bare = load(name)
    print(f"\nStrategies on {name}, whole rewrites")
    for what, sample in {"with shapes": with_shapes(bare), "without shapes": bare}.items():
        policies = [Policy(strategy=strategy, devices=("CPU",)) for strategy in ("grappler", "optimal")]
        grappler, optimal = medians([our_rewrite(sample, policy) for policy in policies], repeat)
        print(f"{what:15} grappler {grappler * 1e3:5.0f} ms, optimal {optimal * 1e3:5.0f} ms, {optimal / grappler:.2f}")


def with_shapes(sample: Sample) -> Sample:
    """The same graph, with the shapes of all values in its attributes."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(sample.graph_def, name="")
    return replace(sample, graph_def=graph.as_graph_def(add_shapes=True))


def print_growth(name: str, repeat: int) -> None:
    """Print how much longer ten copies of a graph take than one."""
    one = load(name)
    ten = copies(one, 10)
    print(f"\nTen disjoint copies of {name}: {len(ten.graph_def.node)} nodes")
    for policy in (POLICY, Policy(devices=("CPU",))):
        small, large = medians([our_rewrite(one, policy), our_rewrite(ten, policy)], repeat)
        print(f"{policy.strategy:8} {large * 1e3:.0f} ms, {large / small:.1f} times the time of one", end=" ")
        print(f"({small * 1e3:.0f} ms)")


def our_rewrite(sample: Sample, policy: Policy = POLICY) -> Callable[[], Any]:
    """One complete rewrite by mixdown."""
    return lambda: rewrite_graph_def(sample.graph_def, sample.fetches, feeds=sample.feeds, policy=policy)


def their_rewrite(sample: Sample) -> Callable[[], Any]:
    """One call of TensorFlow's pass, on a graph that is already placed."""
    graph_def = placed(sample.graph_def)
    return lambda: run_pass(graph_def, sample.fetches, "float16")


def medians(calls: Sequence[Callable[[], Any]], repeat: int) -> list[float]:
    """The median times of the calls, run in turns; the first round is not counted."""
    rounds = [[seconds(call) for call in calls] for _ in range(repeat + 1)]
    return [statistics.median(times) for times in zip(*rounds[1:], strict=True)]


def seconds(call: Callable[[], Any]) -> float:
    """The time of one call, after collecting the garbage of the call before."""
    gc.collect()
    start = clock()
    call()
    return clock() - start


def copies(sample: Sample, count: int) -> Sample:
    """A graph with `count` unconnected copies of a graph, under prefixed names."""
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
    """The name of a node, tensor or control input in the scope of a copy."""
    return f"^copy{index}/{name[1:]}" if name.startswith("^") else f"copy{index}/{name}"


if __name__ == "__main__":
    main()
