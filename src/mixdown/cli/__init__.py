"""The command line, one module a command. In come arguments; out come text, files and an exit code: `main`.

A new command is a module of its name with a `COMMAND`, and one entry in `MODULES`.
"""

import argparse
import re
import sys

from mixdown import __version__
from mixdown.cli import convert, demo, diff, doctor, explain, run, tune
from mixdown.cli.interrupt import INTERRUPTED
from mixdown.errors import MixdownError
from mixdown.rules.spellings import suggestion
from mixdown.untrusted.escaped import escaped

MODULES = (demo, run, convert, explain, diff, doctor, tune)
COMMANDS = {module.__name__.rpartition(".")[2]: module.COMMAND for module in MODULES}

EXAMPLES = """examples:
  mixdown demo
  mixdown run train.py --epochs 3
  mixdown convert models/bert models/bert-float16 --weights low
  mixdown explain models/bert --html report.html
  mixdown explain model.keras --device A100
  mixdown diff before.json after.json
  mixdown doctor
  mixdown tune show
"""


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run its command; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and not given[0].startswith("-") and given[0] not in COMMANDS:
        hint = suggestion(given[0], COMMANDS)
        _parser().error(f"invalid choice: {given[0]!r}{hint}: choose from {', '.join(COMMANDS)}.")
    options, unknown = _parser().parse_known_args(given)
    if unknown:  # as argparse refuses them, and which option is probably meant
        known = re.findall(r"--[\w-]+", options.parser.format_usage())
        misspelt = next((each.partition("=")[0] for each in unknown if each.startswith("-")), "")
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{suggestion(misspelt, known)}")
    try:
        return int(options.run(options))
    except MixdownError as error:
        print(f"mixdown: {escaped(str(error))}", file=sys.stderr)  # noqa: T201 - errors of commands go to stderr
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    style = argparse.RawDescriptionHelpFormatter
    what = "Automatic mixed precision for TensorFlow and JAX by graph rewrite."
    parser = argparse.ArgumentParser(prog="mixdown", description=what, epilog=EXAMPLES, formatter_class=style)
    parser.add_argument("--version", action="version", version=f"mixdown {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="command")
    for name, command in COMMANDS.items():
        own = subparsers.add_parser(name, help=command.help, epilog=command.notes, formatter_class=style)
        command.add_arguments(own)
        own.set_defaults(run=command.run, parser=own)
    return parser
