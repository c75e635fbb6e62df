"""The two ways to make a plan, each a list of stages in order. Read this first: it is the algorithm."""

from __future__ import annotations

from mixdown.core.cut import cut, unite
from mixdown.core.keep_full import spare_tables, spare_updates
from mixdown.core.must_gain import worth
from mixdown.core.stages import STAGES, freeze_lists, match_lists, rest, seed, strip, taint

STRATEGIES = {
    "optimal": (seed, freeze_lists, taint, match_lists, strip, spare_tables, spare_updates, unite, cut, rest, worth),
    "grappler": STAGES,
}
"""Name -> stages. Both begin alike: what the lists demand. Then TensorFlow's procedure paints on from neighbour to
neighbour; `optimal` sets aside what must stay full and lets one minimum cut decide the rest."""
