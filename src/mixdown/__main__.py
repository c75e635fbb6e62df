"""`python -m mixdown`: the command line."""

import sys

from mixdown.cli import main

sys.exit(main())
