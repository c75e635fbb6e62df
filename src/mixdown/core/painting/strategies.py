"""The two ways to make a plan, each a list of stages in order. Read STRATEGIES first: it is the algorithm."""

from __future__ import annotations

from mixdown.core.paint import Canvas, Stroke
from mixdown.core.painting.cut import cut, unite
from mixdown.core.painting.keep_full import keep_tables_full, keep_updates_full
from mixdown.core.painting.leave_alone import leave_alone
from mixdown.core.painting.sensitive import guard, meet
from mixdown.core.painting.stages import STAGES, freeze_lists, match_lists, rest, seed, strip, taint
from mixdown.core.policy_view import PolicyView

STRATEGIES = {
    "optimal": (
        *(seed, freeze_lists, taint, match_lists, strip),
        *(keep_tables_full, keep_updates_full, guard, meet, unite, cut, rest, leave_alone),
    ),
    "grappler": STAGES,
}
"""Name -> stages. Both begin alike: what the lists demand. Then TensorFlow's procedure paints on from neighbour to
neighbour; `optimal` sets aside what must stay full and lets one minimum cut decide the rest."""


def paint(view: PolicyView) -> list[list[Stroke]]:
    """Run the stages in order: every site's strokes, the last of which is its paint."""
    canvas: Canvas = [None] * len(view.graph.sites)
    history: list[list[Stroke]] = [[] for _ in canvas]
    for stage in STRATEGIES[view.policy.strategy]:
        for site, stroke in stage(view, canvas).items():
            canvas[site] = stroke.paint
            history[site].append(stroke)
    return history
