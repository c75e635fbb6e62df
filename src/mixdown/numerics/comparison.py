"""What `mixdown.numerics.compare` returns: how far mixed precision is from float32, tensor by tensor.

`errors_between` measures it. It needs NumPy, which every framework brings.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mixdown.numerics.tally import TensorRow, aligned, named, short
from mixdown.untrusted.escaped import escaped
from mixdown.untrusted.typed import read_document

SCHEMA = "mixdown-comparison/1"
Numbers = NDArray[np.float64]

FLOOR = 1e-6
"""Numbers below this part of the largest one count as that large when an error is taken relative to them."""


@dataclass(frozen=True)
class Errors:
    """How far one set of numbers is from another.

    Attributes:
        max_abs, mean_abs: of the absolute difference.
        max_rel, mean_rel: of the difference relative to the float32 number, or to a millionth of the largest one there.
        relative: the length of the difference relative to the length of the float32 numbers.
        cosine: of the angle between the two; 1.0 if they are equal.
    """

    max_abs: float = 0.0
    mean_abs: float = 0.0
    max_rel: float = 0.0
    mean_rel: float = 0.0
    relative: float = 0.0
    cosine: float = 1.0


BEYOND = Errors(inf, inf, inf, inf, inf, 0.0)
"""The errors where one of the two is not finite and the other is not the same."""


@dataclass(frozen=True)
class Compared(TensorRow):
    """One tensor, or one result of the function, in float32 and mixed."""

    dtype: str  # in the mixed run
    errors: Errors
    added: float = 0.0  # the relative error beyond the largest among what the op reads
    final: bool = False  # a result of the backward pass: a gradient that an optimizer gets


@dataclass(frozen=True)
class Comparison:
    """Float32 and mixed side by side, from the same state and seeds.

    Attributes:
        tensors: the tensors of the program, those whose op adds most error first.
        outputs: what the function returned.
    """

    tensors: tuple[Compared, ...]
    outputs: tuple[Compared, ...] = field(default=())

    @cached_property
    def gradients(self) -> tuple[Compared, ...]:
        """The results of the backward pass, worst first."""
        final = [each for each in self.tensors if each.final]
        return tuple(sorted(final, key=lambda each: -each.errors.relative))

    @property
    def identical(self) -> bool:
        """Whether nothing differs at all."""
        return all(each.errors == Errors() for each in (*self.tensors, *self.outputs))

    def __getitem__(self, name: str) -> Compared:
        """The tensor of that name, such as "dense/MatMul:0" or "dense/MatMul"."""
        return named(name, self.tensors)

    def __str__(self) -> str:
        if self.identical:
            return f"No difference in {len(self.outputs)} outputs and {len(self.tensors)} tensors, bit for bit."
        head = ["tensor", "in", "added", "relative", "max abs", "mean abs", "max rel", "mean rel", "cosine"]
        parts = [("Outputs", self.outputs), ("Gradients", self.gradients), ("Ops, by the error they add", self.tensors)]
        lines: list[str] = []
        for title, rows in parts:
            if rows:
                lines += [f"{title}:", aligned([head, *map(_row, rows)])]
        return "\n".join(lines)

    def to_json(self) -> str:
        """All of it as JSON text; a float that is not finite is written as NaN or Infinity."""
        return json.dumps({"schema": SCHEMA, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote.

        Raises:
            MixdownError: the text is something else.
        """
        return read_document(cls, text, SCHEMA, "comparison")


def _row(each: Compared) -> list[str]:
    errors = each.errors
    numbers = [each.added, errors.relative, errors.max_abs, errors.mean_abs, errors.max_rel, errors.mean_rel]
    return [short(each.name), escaped(each.dtype), *(f"{number:.2e}" for number in numbers), f"{errors.cosine:.6f}"]


def errors_between(full: Sequence[Any], mixed: Sequence[Any]) -> Errors:
    """The errors of all arrays of a sequence together; `BEYOND` if shapes differ, or what is not finite does."""
    if [np.shape(value) for value in full] != [np.shape(value) for value in mixed]:
        return BEYOND
    if all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in zip(full, mixed, strict=True)):
        return Errors()
    expected, got = (np.concatenate([np.ravel(v).astype(np.float64) for v in part]) for part in (full, mixed))
    both = np.isfinite(expected) & np.isfinite(got)
    if not np.array_equal(expected[~both], got[~both], equal_nan=True):
        return BEYOND
    return _finite_errors(expected[both], got[both])


def _finite_errors(expected: Numbers, got: Numbers) -> Errors:
    difference = np.abs(got - expected)
    size = np.abs(expected)
    relative = difference / np.maximum(size, max(size.max() * FLOOR, np.finfo(np.float64).tiny))
    lengths = [float(np.linalg.norm(each)) for each in (expected, got, difference)]
    return Errors(
        float(difference.max()),
        float(difference.mean()),
        float(relative.max()),
        float(relative.mean()),
        lengths[2] / lengths[0] if lengths[0] else float("inf"),
        float(expected @ got) / (lengths[0] * lengths[1]) if lengths[0] * lengths[1] else 0.0,
    )
