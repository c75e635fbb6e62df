"""`mixdown convert SRC DST`: convert a SavedModel, a Keras model or a frozen graph to mixed precision, for serving."""

import argparse
import warnings
from pathlib import Path

import mixdown
from mixdown.cli.common import Command, add_policy_options, policy_of, write_line
from mixdown.cli.loading import start_tensorflow
from mixdown.errors import MixdownWarning
from mixdown.untrusted.escaped import escaped
from mixdown.untrusted.model_files import kind_of, refuse_target

EXAMPLES = """examples:
  mixdown convert models/bert models/bert-float16 --weights low
  mixdown convert model.keras models/served               a Keras model becomes a SavedModel
  mixdown convert frozen.pb frozen-bfloat16.pb --low bfloat16 --outputs logits
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    # Where the model will be served is not known here.
    add_policy_options(parser, devices="all")
    parser.add_argument("src", help="a SavedModel's folder, a Keras model (.keras, .h5), or a frozen graph (.pb)")
    parser.add_argument("dst", help="where the converted model goes")
    parser.add_argument("--io", choices=("float32", "low"), default="float32", help="dtype of the signatures")
    parser.add_argument(
        "--weights",
        choices=("float32", "low"),
        default="float32",
        help="low: in 16 bits, where no op reads float32",
    )
    parser.add_argument("--outputs", nargs="+", default=(), help="nodes of a frozen graph that keep their types")
    parser.add_argument("--overwrite", action="store_true", help="replace what is at DST")


def convert(options: argparse.Namespace) -> int:
    """Convert a model, and print where it and its report are."""
    source, target = Path(options.src), Path(options.dst)
    kind_of(source)
    refuse_target(source, target, overwrite=options.overwrite)
    policy = policy_of(options)
    start_tensorflow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixdownWarning)  # printed below, in full
        done = mixdown.convert_saved_model(
            source,
            target,
            policy,
            io=options.io,
            weights=options.weights,
            outputs=options.outputs,
            overwrite=options.overwrite,
        )
    for line in (str(done), *done.report.warnings, f"Model: {done.path}", f"Report: {done.page}"):
        write_line(escaped(line))
    return 0


COMMAND = Command(
    "convert a SavedModel, a Keras model or a frozen graph for serving; it loads without mixdown",
    EXAMPLES,
    _add_arguments,
    convert,
)
