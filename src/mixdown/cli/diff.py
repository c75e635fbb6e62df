"""`mixdown diff before.json after.json`: what changed from one report to another."""

import argparse
from pathlib import Path

from mixdown.cli.common import Command, write_line
from mixdown.errors import MixdownError, ReportError
from mixdown.reports import Report
from mixdown.reports.compare import compare, unpaired
from mixdown.reports.rendering.text import difference

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


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", type=Path, help="a report saved as JSON")
    parser.add_argument("after", type=Path, help="a later one")
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write both on one page")
    parser.add_argument("--quiet", action="store_true", help="print nothing: the exit code says it")


def diff(options: argparse.Namespace) -> int:
    """Compare two reports, and print what changed."""
    before, after = _load(options.before), _load(options.after)
    if options.html is not None:
        _write(before, after, options.html)
    if not options.quiet:
        write_line("\n".join(difference(before, after)))
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


COMMAND = Command("say what changed from one report to another", NOTES, _add_arguments, diff)
