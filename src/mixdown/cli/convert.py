"""`mixdown convert SRC DST`: a SavedModel or frozen graph in mixed precision, ready to serve."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from mixdown.cli.options import HELP_STYLE, Commands, add_policy_options, policy_of
from mixdown.errors import MixdownWarning
from mixdown.reports.rendering.text import encodable
from mixdown.untrusted.escaped import escaped

if TYPE_CHECKING:
    import argparse

EXAMPLES = """examples:
  mixdown convert models/bert models/bert-float16 --weights low
  mixdown convert frozen.pb frozen-bfloat16.pb --low bfloat16 --outputs logits
"""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "convert",
        help="convert a SavedModel or a frozen graph for serving; it loads without mixdown",
        epilog=EXAMPLES,
        formatter_class=HELP_STYLE,
    )
    # Where the model will be served is not known here.
    add_policy_options(parser, devices="all")
    parser.add_argument("src", help="the folder of a SavedModel, or a frozen graph (.pb)")
    parser.add_argument("dst", help="where the converted model goes")
    parser.add_argument("--io", choices=("float32", "low"), default="float32", help="dtype of the signatures")
    parser.add_argument(
        "--weights", choices=("float32", "low"), default="float32", help="low: store in 16 bits what nobody reads in 32"
    )
    parser.add_argument("--outputs", nargs="+", default=(), help="nodes of a frozen graph that keep their types")
    parser.add_argument("--overwrite", action="store_true", help="replace what is at DST")
    parser.set_defaults(command=convert)


def convert(options: argparse.Namespace) -> int:
    """Convert, and say what became of the model."""
    from mixdown.tensorflow.convert import convert_saved_model  # noqa: PLC0415 - other commands need no TensorFlow

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixdownWarning)  # printed below, in full
        done = convert_saved_model(
            options.src,
            options.dst,
            policy_of(options),
            io=options.io,
            weights=options.weights,
            outputs=options.outputs,
            overwrite=options.overwrite,
        )
    for line in (str(done), *done.report.warnings, f"Model: {done.path}", f"Report: {done.page}"):
        sys.stdout.write(encodable(escaped(line), sys.stdout) + "\n")
    return 0
