"""How soon the page of a large report can be used in headless Chromium, and how large the file is.

The report is that of a real training step; `--ops` repeats its ops until there are so many. Times count from the start
of the navigation, and the median of several openings is shown. `--picture` also keeps a picture of the page.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, the corpus is `benchmarks.corpus`

import tensorflow as tf
from benchmarks.corpus import ensure, load
from tests.reports.rendering.browser import READY, Browser, headless

import mixdown
from mixdown.reports import Report
from mixdown.reports.build import graph_report
from mixdown.reports.model import GraphReport, OpRow
from mixdown.reports.rendering.page import page

EXAMPLE = "example: .venv/bin/python benchmarks/page_open.py --graph bert_base --ops 13000 --repeat 5"
MARKS = """
    const at = (name) => performance.getEntriesByName(name).map((entry) => entry.startTime)[0];
    return [at("first-contentful-paint"), at("mixdown-ready")]"""
SEARCH = """
    const input = document.getElementById("search");
    const start = performance.now();
    input.value = "matmul";
    input.dispatchEvent(new Event("input"));
    return performance.now() - start"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row for the report as it is, and one for so many ops."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graph", default="bert_base", help="a name of the corpus (default: bert_base)")
    parser.add_argument("--ops", type=int, default=13_000, help="size of the larger report (default: 13000)")
    parser.add_argument("--repeat", type=int, default=5, help="openings; the median counts (default: 5)")
    parser.add_argument("--picture", type=Path, help="where to keep a picture of the page")
    options = parser.parse_args(arguments)
    if not READY:
        parser.error("needs Chromium: apt-get install chromium chromium-driver, and pip install selenium")
    ensure([options.graph])
    graph = training_step(options.graph)
    with headless() as browser:
        print_openings(browser, [graph, grown(graph, options.ops)], options.repeat)
        if options.picture:
            take_picture(browser, graph, options.picture)


def training_step(name: str) -> GraphReport:
    """The report of a graph of the corpus, shapes included where TensorFlow can infer them."""
    sample = load(name)
    with tf.Graph().as_default() as shaped:
        tf.graph_util.import_graph_def(sample.graph_def, name="")
    rewritten = mixdown.rewrite_graph_def(
        shaped.as_graph_def(add_shapes=True), sample.fetches, policy=mixdown.Policy(devices="all")
    )
    return graph_report(rewritten.plan, name, "graph")


def grown(graph: GraphReport, size: int) -> GraphReport:
    """The graph with copies of its ops beside it, until there are so many ops."""
    ops = list(graph.ops)
    while len(ops) < size:
        ops += [copied(op, len(ops)) for op in graph.ops]
    kept = [replace(op, inputs=tuple(each for each in op.inputs if each < size)) for op in ops[:size]]
    return replace(graph, ops=tuple(kept))


def copied(op: OpRow, start: int) -> OpRow:
    """An op of a copy that begins at this index; its causes stay those of the original."""
    return replace(op, name=f"copy_{start}/{op.name}", inputs=tuple(start + each for each in op.inputs))


def print_openings(browser: Browser, graphs: Sequence[GraphReport], repeat: int) -> None:
    """Print size, first paint, usable, and one search, for each graph."""
    print(f"Opening a report in headless Chromium, median of {repeat}; mixdown {mixdown.__version__}\n")
    print(f"{'graph':12} {'ops':>7} {'file KB':>8} {'first paint ms':>15} {'usable ms':>10} {'search ms':>10}")
    for graph in graphs:
        html = page(Report(graph.name, graphs=(graph,)))
        times = [opened(browser, html) for _ in range(repeat)]
        paint, usable, search = (statistics.median(each) for each in zip(*times, strict=True))
        row = f"{graph.name:12} {len(graph.ops):7} {len(html) / 1e3:8.0f} {paint:15.0f} {usable:10.0f} {search:10.1f}"
        print(row, flush=True)


def opened(browser: Browser, html: str) -> list[float]:
    """Milliseconds until the first paint and until all is drawn, and those of one search."""
    browser.open(html)
    while None in (marks := browser.script(MARKS)):
        browser.settle()  # Chromium reports a paint some frames after it
    return [*marks, browser.script(SEARCH)]


def take_picture(browser: Browser, graph: GraphReport, path: Path) -> None:
    """Keep a picture of the page with the longest chain of causes open."""
    versions = {"mixdown": mixdown.__version__, "tensorflow": tf.__version__}
    browser.open(page(Report(f"one training step of {graph.name}", versions, (graph,))), width=1440, height=960)
    browser.script("location.hash = `#/0/op/${arguments[0]}`", longest(graph))
    browser.settle()
    browser.driver.save_screenshot(str(path))
    print(f"\n{path}: {path.stat().st_size / 1e3:.0f} KB")


def longest(graph: GraphReport) -> int:
    """The op with the most causes behind it."""
    return max(range(len(graph.ops)), key=lambda op: len(behind(graph, op)))


def behind(graph: GraphReport, op: int) -> list[int]:
    """All ops that are causes of this one, each once."""
    found = [op]
    for here in found:
        causes = (cause for site in graph.ops[here].sites for cause in site.because)
        found += [cause for cause in causes if cause not in found]
    return found


if __name__ == "__main__":
    main()
