"""Mixed precision by three tools, side by side: TensorFlow's own v1 call, Keras 3's policies, and mixdown.

Run `make peers`, or `python benchmarks/peers.py`: it prints the page and writes it to docs/peers.md. Nothing is
downloaded; it takes a few minutes on two cores. Every tool runs in processes of its own, because each of them changes
the process it runs in.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from statistics import mean
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # run as a script, its parts are `benchmarks.peer_*`

PAGE = ROOT / "docs" / "peers.md"
NAMES = {
    "float32": "float32",
    "tensorflow": "TensorFlow 2.21, v1 call",
    "keras": "Keras 3 policy",
    "mixdown": "mixdown",
}
SCALERS = ("tensorflow", "keras", "mixdown")
JOBS = (
    ("graphs", "float32"),
    *(("learn", tool) for tool in NAMES),
    *((run, tool) for run in ("scaling", "replicas") for tool in SCALERS),
)
ANSWER = "answer: "

HEAD = """# Peers, side by side

<!-- Written by `make peers` (benchmarks/peers.py): change that script, not this page. -->

This page is what `make peers` prints and writes. It was made with {versions}, on a CPU.

| | what is compared |
|---|---|
| TensorFlow 2.21, v1 call | `tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite` around a v1 optimizer |
| Keras 3 policy | `keras.config.set_dtype_policy("mixed_float16")` and `keras.optimizers.LossScaleOptimizer` |
| mixdown | `mixdown.enable_mixed_precision_graph_rewrite`, `Policy(devices="all")` |
"""

GRAPHS = """
## The same models

The forward and backward pass of one batch of {batch}. Bytes are those of the `kernels` cost model: every op reads its
inputs and writes its outputs, every cast is a kernel. TensorFlow's figures are its own pass's, run on the same graph.
Accuracy is that on {test} digits of scikit-learn after {epochs} epochs of the same batches in the same order: the mean
of {seeds} seeds, and the lowest and highest. Learning rate and epochs were chosen by float32 alone, so that it learns;
with so few seeds, differences within the range of a row mean nothing.
TensorFlow's pass itself does not act without a GPU: it trains with its choices applied by
`Policy(rules="tf-2.21", strategy="grappler")` and its own loss scaling.
"""

NOTES = """
What makes the difference in bytes, by kind of op:

* LSTM: mixdown and Keras sum the gradients of weights that are used at every time step in float32, which takes casts;
  TensorFlow sums them in float16.
* transformer block: Keras runs `Exp`, `Square` and `Sum` in float16, which mixdown denies, and so needs fewer casts: it
  moves the least.
* embedding: TensorFlow casts the whole table; the others look rows up in float32.
* CNN with batch norm and embedding: every tool moves more than float32 does. These models are small; for large ones see
  [](benchmarks.md).
"""

SCALING = """
## The documented lines

Wrap a Keras optimizer, `compile`, `fit`:
"""

SKIPS = """
## What is told of skipped steps

{steps} steps, of which {bad} have a NaN in every gradient:
"""

TRACES = """
## Three traces that break scalers

* *collapse*: 200 steps that are not finite, then one that is.
* *growth*: 130 good steps with a scale that may grow after each, then one that is not finite, then ten good ones.
* *one replica*: MirroredStrategy on two devices; one step's gradients are NaN on the second replica only.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, print the page and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=PAGE, help="where to write the page (default: docs/peers.md)")
    parser.add_argument("--job", nargs=2, metavar=("RUN", "TOOL"), help="do one run in this process and print its JSON")
    options = parser.parse_args(arguments)
    if options.job:
        from benchmarks.peer_runs import run  # noqa: PLC0415 - imports TensorFlow, which --help does not need

        print(ANSWER + json.dumps(run(*options.job)))
        return
    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(JOBS, pool.map(in_own_process, JOBS), strict=True))
    written = "\n".join(page(results))
    print(written)
    options.out.write_text(written, "utf-8")


def in_own_process(job: tuple[str, str]) -> Any:
    """What one run of one tool came to."""
    print(f"... {job[0]} {job[1]}", file=sys.stderr, flush=True)
    done = subprocess.run(  # noqa: S603 - our own file
        [sys.executable, "-W", "ignore", __file__, "--job", *job], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(job)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.rpartition(ANSWER)[2])


def page(results: dict[tuple[str, str], Any]) -> Iterator[str]:
    """The page, piece by piece."""
    from benchmarks import peer_models, peer_runs  # noqa: PLC0415 - import TensorFlow, which --help does not need

    versions = ", ".join(f"{package} {version(package)}" for package in ("mixdown", "tensorflow", "keras"))
    yield HEAD.format(versions=versions)
    yield (
        GRAPHS.strip("\n").format(
            batch=peer_models.BATCH, test=peer_models.TEST, epochs=peer_runs.EPOCHS, seeds=len(peer_models.SEEDS)
        )
        + "\n"
    )
    yield table(("model", "tool", "ops in float16", "casts", "kB moved", "of float32", "accuracy"), model_rows(results))
    yield NOTES
    scaling = {tool: results["scaling", tool] for tool in SCALERS}
    yield SCALING.strip("\n") + "\n"
    yield table(("tool", "works"), ((NAMES[tool], told["fit"]) for tool, told in scaling.items()))
    yield SKIPS.format(steps=peer_runs.STEPS, bad=len(peer_runs.BAD_STEPS))
    yield table(("tool", "what it tells"), ((NAMES[tool], told["skips"]) for tool, told in scaling.items()))
    yield TRACES
    yield table(("tool", "collapse", "growth", "one replica"), trace_rows(results)) + "\n"


def model_rows(results: dict[tuple[str, str], Any]) -> Iterator[tuple[str, ...]]:
    """A row for every model and tool."""
    for model, tools in results["graphs", "float32"].items():
        full = tools["float32"]["bytes"]
        for tool, counted in tools.items():
            yield (
                model if tool == "float32" else "",
                NAMES[tool],
                f"{counted['low']} of {counted['ops']}",
                str(counted["casts"]),
                f"{counted['bytes'] / 1e3:.0f}",
                f"{counted['bytes'] / full:.2f}",
                spread(results["learn", tool][model]),
            )


def spread(accuracies: Sequence[float]) -> str:
    """The mean, and the lowest and highest."""
    return f"{mean(accuracies):.1%} ({min(accuracies):.1%} to {max(accuracies):.1%})"


def trace_rows(results: dict[tuple[str, str], Any]) -> Iterator[tuple[str, ...]]:
    """A row for every tool that scales the loss."""
    for tool in SCALERS:
        told = results["scaling", tool]
        collapse, growth = told["collapse"], told["growth"]
        learns = "learns on" if growth["learns"] else "never learns again"
        yield (
            NAMES[tool],
            f"scale {collapse['scale']:g}, weights {verdict(collapse)}",
            f"scale {growth['scale']:.3g}, then {growth['after']:.3g}, {learns}, weights {verdict(growth)}",
            f"weights {verdict(results['replicas', tool])}",
        )


def verdict(state: dict[str, Any]) -> str:
    """What became of the weights."""
    return "fine" if state["finite"] else "**destroyed**"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [list(head), ["---"] * len(list(head)), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
