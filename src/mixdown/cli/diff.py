"""`mixdown diff before.json after.json`: what changed from one report to another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mixdown.cli.options import HELP_STYLE, Commands
from mixdown.errors import MixdownError, ReportError
from mixdown.reports import Report
from mixdown.reports.compare import compare, unpaired
from mixdown.reports.rendering.text import difference, encodable

if TYPE_CHECKING:
    import argparse

NOTES = """examples:
  mixdown explain model --json before.json
  mixdown explain model --rules tf-2.21 --json after.json
  mixdown diff before.json after.json
  mixdown diff before.json after.json --html changes.html

exit codes:
  0  both reports decide the same
  1  they differ
  2  a file is missing, or is no report
"""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "diff",
        help="say what changed from one report to another",
        epilog=NOTES,
        formatter_class=HELP_STYLE,
    )
    parser.add_argument("before", type=Path, help="a report saved as JSON")
    parser.add_argument("after", type=Path, help="a later one")
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write both on one page")
    parser.add_argument("--quiet", action="store_true", help="print nothing: the exit code says it")
    parser.set_defaults(command=diff)


def diff(options: argparse.Namespace) -> int:
    """Compare two reports."""
    before, after = _load(options.before), _load(options.after)
    if options.html is not None:
        _write(before, after, options.html)
    if not options.quiet:
        sys.stdout.write(encodable("\n".join(difference(before, after)), sys.stdout) + "\n")
    same = not any(unpaired(before, after)) and all(graph.is_same for graph in compare(before, after))
    return 0 if same else 1


def _load(path: Path) -> Report:
    try:
        return Report.from_json(path.read_text("utf-8"))
    except OSError as error:
        raise MixdownError(f"{str(path)!r} cannot be read: {error.strerror}.") from None
    except (ReportError, UnicodeDecodeError) as error:
        raise MixdownError(f"{str(path)!r}: {error}") from None


def _write(before: Report, after: Report, path: Path) -> None:
    try:
        after.save(path, compared=before)
    except (OSError, ValueError) as error:
        raise MixdownError(f"{str(path)!r} cannot be written: {error}") from None
