"""Paint and strokes: what a site may become, and one decision about it."""

from enum import Enum
from typing import NamedTuple


class Paint(Enum):
    """The precision of a site."""

    LOW = "low"  # the policy's 16-bit dtype
    FULL = "full"  # float32, as it was


class Stroke(NamedTuple):
    """One decision: which paint, which stage gave it, because of which other sites, and for how many bytes."""

    paint: Paint
    stage: str
    because: tuple[int, ...] = ()
    spared: int = 0  # where bytes decided: how many more the other paint would have moved


Canvas = list[Paint | None]
"""The paint of every site so far; None is undecided. Before the last stage, FULL means denied."""

Strokes = dict[int, Stroke]
"""What a stage decided: site -> stroke."""
