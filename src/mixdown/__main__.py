"""`mixdown` and `python -m mixdown`: the command line, quiet if Ctrl-C comes while it is still being loaded."""

import sys


def main() -> int:
    """Load and run the command line; returns the exit code."""
    try:
        from mixdown.cli import main as run  # noqa: PLC0415 - loading takes long enough to be interrupted

        return run()
    except KeyboardInterrupt:
        return 130  # the code of `cli.interrupt`, which may not be loaded yet


if __name__ == "__main__":
    sys.exit(main())
