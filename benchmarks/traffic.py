"""Casts, cast bytes and memory traffic of a training step: mixdown's cheapest plan and TensorFlow's own plans.

Run `python benchmarks/traffic.py`. Counts and bytes are exact under the `kernels` cost model: every op reads its inputs
and writes its outputs, and every cast is a kernel of its own. TensorFlow's plans are those of its releases 2.19 and
2.21, which the rule sets of those names reproduce op for op (see tests/parity). "same lists" is the cheapest plan under
2.21's lists; "float32" is the graph as it is. Only the plans of "mixdown" put the normalizations of Keras 3 onto one op
each.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, the corpus is `benchmarks.corpus`

from benchmarks.corpus import FULL, Sample, ensure, load

from mixdown import Policy, rewrite_graph_def
from mixdown.core import Paint, Plan

POLICIES = {
    "TF 2.19": Policy(rules="tf-2.19", strategy="grappler", devices="all"),
    "TF 2.21": Policy(rules="tf-2.21", strategy="grappler", devices="all"),
    "same lists": Policy(rules="tf-2.21", devices="all"),
    "mixdown": Policy(devices="all"),
}
LINE = "{:20} | {:10} | {:>6} | {:>9} | {:>10} | {:>8} | {:>9} | {:>8}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", default=",".join(FULL), help="names of the corpus, comma-separated (default: all)")
    names = parser.parse_args(arguments).graphs.split(",")
    ensure(names)
    print(LINE.format("graph", "plan", "casts", "cast MB", "total MB", "cast", "total", "total"))
    print(LINE.format("", "", "", "", "", "/ 2.21", "/ 2.21", "/ fp32"))
    for name in names:
        print_rows(load(name))


def print_rows(sample: Sample) -> None:
    """Print one graph under every policy."""
    plans = {
        name: rewrite_graph_def(sample.graph_def, sample.fetches, feeds=sample.feeds, policy=policy).plan
        for name, policy in POLICIES.items()
    }
    peer, full = moved(plans["TF 2.21"]), float32(plans["TF 2.21"])
    rows = {"float32": (0, 0, full), **{name: (len(plan.casts), *moved(plan)) for name, plan in plans.items()}}
    for name, (count, casts, total) in rows.items():
        print(
            LINE.format(
                sample.name,
                name,
                count,
                f"{casts / 1e6:.0f}",
                f"{total / 1e6:.0f}",
                f"{casts / peer[0]:.3f}",
                f"{total / peer[1]:.3f}",
                f"{total / full:.3f}",
            ),
            flush=True,
        )


def moved(plan: Plan) -> tuple[int, int]:
    """The bytes that the casts of a plan move, and the bytes that all ops and casts move."""
    bill = plan.view.prices.traffic(plan.paints)
    return bill.casts, bill.total


def float32(plan: Plan) -> int:
    """The bytes that the graph moves in float32 as it is, given a plan by which no ops were put together."""
    return plan.view.prices.traffic([Paint.FULL] * len(plan.paints)).total


if __name__ == "__main__":
    main()
