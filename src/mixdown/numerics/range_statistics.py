"""What `mixdown.numerics.statistics` returns: every low tensor with what was counted. Start with `Statistics`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixdown.errors import MisfitError, MixdownError
from mixdown.numerics.page import statistics_page
from mixdown.numerics.scale import ScaleAdvice, advise
from mixdown.numerics.table import statistics_table
from mixdown.numerics.tally import Tally
from mixdown.rules.op_names import is_backward
from mixdown.untrusted.json_text import parsed
from mixdown.untrusted.typed import from_json_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixdown.numerics.tally import Losses

SCHEMA = "mixdown-statistics/1"
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-126, 2.0**127
"""Normal float32 powers of two: no loss scale lies outside."""


@dataclass(frozen=True)
class Measured:
    """One tensor: the op and output it is, and its numbers."""

    op: str
    kind: str
    output: int
    function: str
    tally: Tally

    @property
    def name(self) -> str:
        """The tensor, as TensorFlow names it."""
        return f"{self.op}:{self.output}"

    @property
    def gradient(self) -> bool:
        """Whether it is a part of the backward pass."""
        return is_backward(self.op)

    def losses(self, low: str) -> Losses:
        """What "float16" or "bfloat16" would do to it."""
        return self.tally.losses(low)


@dataclass(frozen=True)
class Statistics:
    """The float32 values of every tensor that a policy makes low, as if they were in 16 bits.

    Attributes:
        low: the 16-bit dtype of the policy.
        steps: how many steps were measured.
        loss_scale: the scale that the gradients carried.
        tensors: the tensors, those that lose most first.
    """

    low: str
    steps: int
    loss_scale: float
    tensors: tuple[Measured, ...]

    def __getitem__(self, name: str) -> Measured:
        """The tensor of that name, such as "dense/MatMul:0" or "dense/MatMul"."""
        found = [each for each in self.tensors if name in (each.name, each.op)]
        if not found:
            raise KeyError(f"No low tensor is named {name!r}; there are {len(self.tensors)}, see .tensors.")
        return found[0]

    @cached_property
    def gradients(self) -> tuple[Measured, ...]:
        """The tensors of the backward pass."""
        return tuple(each for each in self.tensors if each.gradient)

    @cached_property
    def scale(self) -> ScaleAdvice | None:
        """The loss scale that these gradients need; None if there are no gradients, or only zeros."""
        return advise((each.tally for each in self.gradients), self.loss_scale)

    def __str__(self) -> str:
        return statistics_table(self)

    def to_json(self) -> str:
        """All of it as JSON text."""
        rows = [
            {
                "op": each.op,
                "kind": each.kind,
                "output": each.output,
                "function": each.function,
                "tally": each.tally.to_dict(),
            }
            for each in self.tensors
        ]
        head = {"schema": SCHEMA, "low": self.low, "steps": self.steps, "loss_scale": self.loss_scale}
        return json.dumps({**head, "tensors": rows})

    @classmethod
    def from_json(cls, text: str) -> Statistics:
        """What `to_json` wrote.

        Raises:
            MixdownError: the text is something else.
        """
        try:
            data = parsed(text)
        except ValueError as broken:
            raise MixdownError(f"These are no statistics: not JSON ({broken}).") from None
        if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
            raise MixdownError(f"These are no statistics that mixdown can read: the schema should be {SCHEMA!r}.")
        try:
            stored = from_json_data(_Stored, data, "the statistics")
            tensors = tuple(Measured(**{**vars(row), "tally": Tally.from_dict(row.tally)}) for row in stored.tensors)
        except MisfitError as misfit:
            raise MixdownError(f"These statistics are broken: {misfit}.") from None
        if not SMALLEST_SCALE <= stored.loss_scale <= LARGEST_SCALE:
            raise MixdownError(f"These statistics are broken: {stored.loss_scale} is no loss scale.")
        return cls(stored.low, stored.steps, stored.loss_scale, tensors)

    def save(self, path: str | Path) -> Path:
        """Write it as a page with histograms (`.html`), as JSON (`.json`) or as a table (`.txt`); returns the path.

        Raises:
            MixdownError: the name ends in something else.
        """
        writers: dict[str, Callable[[], str]] = {
            ".html": lambda: statistics_page(self),
            ".json": self.to_json,
            ".txt": lambda: str(self),
        }
        target = Path(path)
        if target.suffix not in writers:
            raise MixdownError(f"Statistics are saved as .html, .json or .txt, not as {target.name!r}.")
        target.write_text(writers[target.suffix](), "utf-8")
        return target


@dataclass(frozen=True)
class _StoredTensor:
    """A tensor as JSON has it."""

    op: str
    kind: str
    output: int
    function: str
    tally: dict[str, Any]


@dataclass(frozen=True)
class _Stored:
    """Statistics as JSON has them."""

    low: str
    steps: int
    loss_scale: float
    tensors: tuple[_StoredTensor, ...]
