"""The command line, one module a command. Start with `main`; a new command is one line in `COMMANDS`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from mixdown import __version__
from mixdown.cli.options import HELP_STYLE
from mixdown.errors import MixdownError
from mixdown.untrusted.escaped import escaped

# Each module has `add(commands)`, which declares its arguments and sets `command` to the function that runs it.
COMMANDS = ("demo", "run", "convert", "explain", "diff", "doctor")

EXAMPLES = """examples:
  mixdown demo
  mixdown run train.py --epochs 3
  mixdown convert models/bert models/bert-float16 --weights low
  mixdown explain models/bert --html report.html
  mixdown diff before.json after.json
  mixdown doctor
"""


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and do what it asks; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except MixdownError as error:
        print(f"mixdown: {escaped(str(error))}", file=sys.stderr)  # noqa: T201 - the command line speaks
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mixdown",
        description="Automatic mixed precision for TensorFlow by graph rewrite.",
        epilog=EXAMPLES,
        formatter_class=HELP_STYLE,
    )
    parser.add_argument("--version", action="version", version=f"mixdown {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name in COMMANDS:
        import_module(f"mixdown.cli.{name}").add(commands)
    return parser
