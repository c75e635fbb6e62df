"""Tensor Core advice: dimensions of low matrix products and convolutions that cost speed. Start with `advise`.

The rule is that of the documentation: batch sizes, input and output sizes and numbers of channels should be powers of
two below 256, and multiples of 8 above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mixdown.reports.model import Advice
from mixdown.rules.op_names import is_backward, layers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

BORDER = 256
STEP = 8


class Product(NamedTuple):
    """One matrix product or convolution: the index of its op, and its dimensions by name, None if not known."""

    op: int
    dimensions: tuple[tuple[str, int | None], ...]


def is_good(size: int) -> bool:
    """Whether Tensor Cores like a dimension of this size."""
    return size % STEP == 0 if size > BORDER else size.bit_count() == 1


def nearest_good(size: int) -> int:
    """The nearest size that Tensor Cores like; the larger of two that are equally near."""
    if size > BORDER:
        return (size + STEP // 2) // STEP * STEP
    below = 1 << (size.bit_length() - 1)
    return below if size - below < 2 * below - size else 2 * below


def advise(names: Sequence[str], products: Iterable[Product]) -> tuple[Advice, ...]:
    """Advice per layer and dimension; a gradient op repeats the dimensions of its layer and is only named there.

    Args:
        names: the names of all ops of the graph.
        products: those of its ops that are to be judged.
    """
    owners = layers(names)
    found: dict[tuple[str, str, int], list[str]] = {}
    for product in sorted(products, key=lambda product: (is_backward(names[product.op]), product.op)):
        name = names[product.op]
        layer = owners[product.op] or name
        for dimension, size in _bad(product):
            known = [key for key in found if (key[0], key[2]) == (layer, size)] if is_backward(name) else []
            for key in known or [(layer, dimension, size)]:
                found.setdefault(key, []).append(name)
    return tuple(
        Advice(layer, dimension, size, nearest_good(size), tuple(dict.fromkeys(ops)))
        for (layer, dimension, size), ops in found.items()
    )


def _bad(product: Product) -> Iterator[tuple[str, int]]:
    for dimension, size in product.dimensions:
        if size is not None and size > 0 and not is_good(size):
            yield dimension, size
