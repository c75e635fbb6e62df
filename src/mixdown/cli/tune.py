"""`mixdown tune`: what tuning found out on this machine and keeps for the next run: show it, or delete it."""

import argparse

from mixdown.cli.common import Command, write_line
from mixdown.tuning.memory import Tuned, everything, folder
from mixdown.untrusted.escaped import escaped

NOTES = """examples:
  mixdown tune show
  mixdown tune clear

exit codes:
  0  done
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("show", "clear"), help="list the functions that were tuned, or forget them")


def tune(options: argparse.Namespace) -> int:
    """Show the files, or delete them."""
    found = everything()
    for path, held in found.items():
        if options.what == "clear":
            path.unlink(missing_ok=True)
        elif isinstance(held, Tuned):
            write_line(escaped(f"{held.function} on {held.device}: {held}"))
            for trial in held.trials:
                write_line(escaped("  ".join(("", *trial.shown, trial.name))))
        else:
            write_line(escaped(f"{path}: {held}"))
    done = "deleted" if options.what == "clear" else "tuned"
    write_line(f"{folder()}: {len(found)} function{'s' if len(found) != 1 else ''} {done}")
    return 0


COMMAND = Command("show or delete what Policy(strategy='tuned') found out and keeps", NOTES, _add_arguments, tune)
