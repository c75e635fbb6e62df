"""What `mixdown.numerics.statistics` returns: every 16-bit tensor with its counts. Start with `Statistics`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from mixdown.errors import MixdownError
from mixdown.numerics.page import statistics_page
from mixdown.numerics.scale import ScaleAdvice, advise
from mixdown.numerics.tally import LOSSES, MeasuredTensor, aligned, named, short
from mixdown.rules.formats import FORMATS
from mixdown.untrusted.escaped import escaped
from mixdown.untrusted.typed import read_document

SCHEMA = "mixdown-statistics/1"
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-126, 2.0**127
"""Normal float32 powers of two: no loss scale lies outside."""


@dataclass(frozen=True)
class Statistics:
    """The values of every tensor that a policy puts into 16 bits, measured in float32.

    Attributes:
        low: the 16-bit dtype of the policy.
        steps: how many steps were measured.
        loss_scale: the scale that the gradients carried.
        tensors: the tensors, those that lose most first.
    """

    low: str
    steps: int
    loss_scale: float
    tensors: tuple[MeasuredTensor, ...]

    def __getitem__(self, name: str) -> MeasuredTensor:
        """The tensor of that name, such as "dense/MatMul:0" or "dense/MatMul"."""
        return named(name, self.tensors)

    @cached_property
    def gradients(self) -> tuple[MeasuredTensor, ...]:
        """The tensors of the backward pass."""
        return tuple(each for each in self.tensors if each.gradient)

    @cached_property
    def scale(self) -> ScaleAdvice | None:
        """The loss scale that these gradients need; None if there are no gradients, or only zeros."""
        return advise((each.tally for each in self.gradients), self.loss_scale)

    def __str__(self) -> str:
        head = ["tensor", "elements", "max abs", "min nonzero"]
        head += [f"{low} {loss}" for low in FORMATS for loss in LOSSES]
        steps = f"{self.steps} step" if self.steps == 1 else f"{self.steps} steps"
        lines = [f"{len(self.tensors)} tensors that become {escaped(self.low)}, over {steps}:"]
        lines.append(aligned([head, *([short(each.name), *each.tally.cells()] for each in self.tensors)]))
        return "\n".join([*lines, str(self.scale)] if self.scale else lines)

    def to_html(self) -> str:
        """A page with a histogram of every tensor."""
        return statistics_page(self.low, self.steps, self.tensors, self.scale)

    def to_json(self) -> str:
        """All of it as JSON text."""
        rows = [{**vars(each), "tally": each.tally.to_dict()} for each in self.tensors]
        head = {"schema": SCHEMA, "low": self.low, "steps": self.steps, "loss_scale": self.loss_scale}
        return json.dumps({**head, "tensors": rows})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote.

        Raises:
            MixdownError: the text is something else.
        """
        found = read_document(cls, text, SCHEMA, "statistics file")
        if not SMALLEST_SCALE <= found.loss_scale <= LARGEST_SCALE:
            raise MixdownError(f"This statistics file is broken: {found.loss_scale} is no loss scale.")
        return found

    def save(self, path: str | Path) -> Path:
        """Write it as a page with histograms (`.html`), as JSON (`.json`) or as a table (`.txt`); returns the path.

        Raises:
            MixdownError: the name ends in something else.
        """
        writers: dict[str, Callable[[], str]] = {".html": self.to_html, ".json": self.to_json, ".txt": self.__str__}
        target = Path(path)
        if target.suffix not in writers:
            raise MixdownError(f"Statistics are saved as .html, .json or .txt, not as {target.name!r}.")
        target.write_text(writers[target.suffix](), "utf-8")
        return target
