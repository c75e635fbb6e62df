"""`mixdown explain PATH`: what the rewrite does to a saved graph, op by op, without running it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import mixdown
from mixdown.cli.common import Command, add_policy_options, policy_of, write_line
from mixdown.cli.progress import Progress
from mixdown.errors import MixdownError
from mixdown.reports import Report

NOTES = """examples:
  mixdown explain models/bert
  mixdown explain models/bert --signature serving_default --html report.html
  mixdown explain frozen.pb --fetch logits --why dense_1/MatMul
  mixdown explain models/bert --device A100                  also predict the time of a run
  mixdown explain frozen.pb --low bfloat16 --json after.json --quiet

exit codes:
  0  done
  2  the graph, the policy or an op cannot be found or read
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="a SavedModel's directory, or a GraphDef in a .pb or .pbtxt file")
    parser.add_argument("--signature", action="append", default=[], help="of a SavedModel, only this; may be repeated")
    parser.add_argument("--fetch", action="append", default=[], help="of a GraphDef, what is fetched; may be repeated")
    parser.add_argument("--feed", action="append", default=[], help="of a GraphDef, what is fed; may be repeated")
    parser.add_argument("--why", metavar="OP", action="append", default=[], help="only the chain of causes of this op")
    parser.add_argument(
        "--device", default="", help="predict the time of a run for it: A100, ... or measured, for this"
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write the report as a page")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the report as JSON, for `mixdown diff`")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors and what --why asks for")
    add_policy_options(parser, devices="all")


def explain(options: argparse.Namespace) -> int:
    """Explain a saved graph: print the report or the chains of causes, and write the files that were asked for."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's own log lines do not belong in the output
    policy = policy_of(options)
    with Progress(3, quiet=options.quiet) as progress:
        progress.step("loading TensorFlow")
        explained = mixdown.explain
        progress.step(f"reading and planning {options.path}")
        report = explained(
            options.path,
            policy=policy,
            fetches=options.fetch,
            feeds=options.feed,
            signatures=options.signature,
            device=options.device,
        )
        progress.step("writing")
        _write(report, options)
    _answer(report, options)
    return 0


def _write(report: Report, options: argparse.Namespace) -> None:
    for path, ending in ((options.html, ".html"), (options.json, ".json")):
        if path is None:
            continue
        if path.suffix != ending:
            raise MixdownError(f"--{ending[1:]} writes a file that ends in {ending}, not {str(path)!r}.")
        try:
            report.save(path)
        except OSError as error:
            raise MixdownError(f"{str(path)!r} cannot be written: {error.strerror}.") from None


def _answer(report: Report, options: argparse.Namespace) -> None:
    try:
        chains = [report.why(op) for op in options.why]
    except KeyError as unknown:
        raise MixdownError(str(unknown.args[0])) from None
    if chains:
        write_line("\n\n".join(chains))
    elif not options.quiet:
        report.show()


COMMAND = Command(
    "say what the rewrite does to a saved graph, and why, without running it", NOTES, _add_arguments, explain
)
