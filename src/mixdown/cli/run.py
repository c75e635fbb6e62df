"""`mixdown run script.py`: run an old script as it was written."""

import argparse
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path

import mixdown
from mixdown import compat
from mixdown.cli.common import Command, add_policy_options, policy_of
from mixdown.errors import MixdownError

EXAMPLES = """examples:
  mixdown run train.py --epochs 3
  mixdown run --low bfloat16 --devices GPU,CPU train.py
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_policy_options(parser)
    parser.add_argument(
        "--locate", action="store_true", help="name the first op that makes an Inf or NaN; slower until there is one"
    )
    parser.add_argument("script", help="the script to run")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what to pass on to the script")
    rest.required = False  # or argparse says that it misses them


def run(options: argparse.Namespace) -> int:
    """Run a script as `python script.py ...` would, with the documented names in place."""
    script = Path(options.script)
    if not script.is_file():
        raise MixdownError(f"There is no script {options.script!r}.")
    compat.install(policy_of(options))
    sys.argv = [options.script, *options.arguments]
    sys.path.insert(0, str(script.parent))
    with mixdown.numerics.locating(_print_location) if options.locate else nullcontext():
        runpy.run_path(options.script, run_name="__main__")
    return 0


def _print_location(found: object) -> None:
    print(found, file=sys.stderr)  # noqa: T201 - stdout belongs to the script


COMMAND = Command(
    "run an old script as it was written: the documented names are put back under tf.*", EXAMPLES, _add_arguments, run
)
