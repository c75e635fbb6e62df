"""`mixdown explain PATH`: what the rewrite does to a saved graph, op by op, without running it."""

import argparse
from pathlib import Path

import mixdown
from mixdown.cli.common import Command, add_policy_options, policy_of, write_line
from mixdown.cli.loading import own_stderr, start_tensorflow
from mixdown.cli.progress import Progress
from mixdown.errors import MixdownError
from mixdown.reports import Report
from mixdown.untrusted.model_files import kind_of, refuse_signatures, saved_model_folder

NOTES = """examples:
  mixdown explain models/bert
  mixdown explain model.keras                                a Keras model: its forward pass
  mixdown explain models/bert --signature serving_default --html report.html
  mixdown explain frozen.pb --fetch logits --why dense_1/MatMul
  mixdown explain models/bert --device A100                  also predict the bytes and time of a run
  mixdown explain frozen.pb --low bfloat16 --json after.json --quiet

exit codes:
  0  done
  2  the graph, the policy or an op cannot be found or read
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="a SavedModel's folder, or a .keras, .h5, .pb or .pbtxt file")
    parser.add_argument("--signature", action="append", default=[], help="of a SavedModel, only this; may be repeated")
    parser.add_argument("--fetch", action="append", default=[], help="of a GraphDef, what is fetched; may be repeated")
    parser.add_argument("--feed", action="append", default=[], help="of a GraphDef, what is fed; may be repeated")
    parser.add_argument("--why", metavar="OP", action="append", default=[], help="only the chain of causes of this op")
    parser.add_argument("--device", default="", help="predict a run on it, such as A100; Keras models compiled")
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write the report as a page")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the report as JSON, for `mixdown diff`")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors and what --why asks for")
    add_policy_options(parser, devices="all")


def explain(options: argparse.Namespace) -> int:
    """Explain a saved graph: print the report or the chains of causes, and write the files that were asked for."""
    policy = policy_of(options)
    _check(options)
    with own_stderr(), Progress(3, quiet=options.quiet) as progress:
        progress.step("loading TensorFlow")
        start_tensorflow()
        progress.step(f"reading and planning {options.path}")
        report = mixdown.explain(
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


def _check(options: argparse.Namespace) -> None:
    """Refuse what cannot work before TensorFlow is loaded, which takes long."""
    path = Path(options.path)
    if kind_of(saved_model_folder(path)) != "SavedModel":
        refuse_signatures(path, options.signature)
    for file, ending in ((options.html, ".html"), (options.json, ".json")):
        if file is not None and file.suffix != ending:
            raise MixdownError(f"--{ending[1:]} writes a file that ends in {ending}, not {str(file)!r}.")
        if file is not None and not file.parent.is_dir():
            raise MixdownError(f"{str(file)!r} cannot be written: there is no folder {str(file.parent)!r}.")


def _write(report: Report, options: argparse.Namespace) -> None:
    for path in filter(None, (options.html, options.json)):
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
