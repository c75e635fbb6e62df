"""How much work a graph is, and how much of it a plan does in 16 bits. Start with `effort_of`.

Arithmetic is that of matrix products and convolutions. Bytes are those of the model that priced the plan. Activations
are the values that the forward pass makes and ops of the backward pass read: they stay in memory in between. What is
read from variables and constants does not count, and a view of a value is that value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mixdown.core.paint import Paint
from mixdown.core.pricing.moved_bytes import LOW_BYTES, Prices
from mixdown.core.pricing.predicted_time import Predicted
from mixdown.rules.layer_names import is_backward

FULL_BYTES = 2 * LOW_BYTES
BYTES = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("bytes", 1))
FLOPS = (("PFLOP", 10**15), ("TFLOP", 10**12), ("GFLOP", 10**9), ("MFLOP", 10**6), ("kFLOP", 10**3), ("FLOP", 1))


@dataclass(frozen=True)
class Effort:
    """The work of one run. Zero where it is not known."""

    flops: int = 0  # multiplications and additions of matrix products and convolutions
    low_flops: int = 0  # of these in 16 bits
    bytes: int = 0  # moved by ops and casts
    float32_bytes: int = 0  # the same if all of it were float32
    activations: int = 0  # bytes that the forward pass keeps for the backward pass
    float32_activations: int = 0
    predicted: tuple[Predicted, ...] = ()  # times, where a device was named

    @property
    def share(self) -> str:
        """The part of the matrix arithmetic that runs in 16 bits, such as "98 %"; "" if there is none."""
        if not self.flops:
            return ""
        exact = 100 * self.low_flops / self.flops
        rounded = round(exact, 1 if exact < 1 or 99 < exact < 100 else 0)  # noqa: PLR2004 - "100 %" means all of it
        return f"{rounded:g} %" if rounded < 100 or exact == 100 else "99.9 %"  # noqa: PLR2004 - likewise


def effort_of(prices: Prices, paints: Sequence[Paint]) -> Effort:
    """The work of a whole graph by these paints; `prices` must count bytes."""
    graph = prices.graph
    prices.expect(range(len(graph.sites)))
    flops, low_flops = arithmetic(prices, paints)
    float32 = sum(map(prices.low, range(len(graph.sites)))) * 2
    total = prices.traffic(paints).total if Paint.LOW in paints else float32
    float32 += prices.spared()
    kept, kept_float32 = _activations(prices, paints)
    return Effort(flops, low_flops, total, float32, kept, kept_float32)


def arithmetic(prices: Prices, paints: Sequence[Paint]) -> tuple[int, int]:
    """The operations of all matrix products and convolutions, and of those in 16 bits."""
    work = prices.graph.work
    flops = [(work[index], paints[op.sites[0]]) for index, op in enumerate(prices.graph.ops)] if work else []
    return sum(count for count, _ in flops), sum(count for count, paint in flops if paint is Paint.LOW)


def _activations(prices: Prices, paints: Sequence[Paint]) -> tuple[int, int]:
    """Bytes of the values that are kept for the backward pass, by these paints and in float32.

    A value that a cast stands on is kept in the dtypes in which the backward pass reads it.
    """
    graph, traits = prices.graph, prices.traits
    backward = [is_backward(graph.ops[site.op].name) for site in graph.sites]
    origins = _origins(prices)
    readers: dict[int, set[Paint]] = {}
    for index, tensor in enumerate(graph.tensors):
        origin = origins[index]
        maker = graph.tensors[origin].site
        read = {paints[site] for site in tensor.consumers if backward[site] and not _looks_on(prices, site)}
        if read and not backward[maker] and not tensor.folds and graph.kinds[maker] not in traits.reads:
            readers.setdefault(origin, set()).update(read)
    sizes = {Paint.LOW: LOW_BYTES, Paint.FULL: FULL_BYTES}
    counts = {tensor: prices.elements(tensor) for tensor in readers}
    kept = sum(counts[tensor] * sizes[paint] for tensor, its in readers.items() for paint in its)
    return kept, FULL_BYTES * sum(counts.values())


def _origins(prices: Prices) -> list[int]:
    """Per tensor, the one that it is a view of, or itself."""
    graph = prices.graph
    made: dict[int, int] = {}  # by the site of a view, the tensor that it is a view of
    for index, tensor in enumerate(graph.tensors):
        for site in tensor.consumers:
            if graph.kinds[site] in prices.traits.views:
                made.setdefault(site, index)
    out = []
    for index in range(len(graph.tensors)):
        origin, seen = index, {index}
        while (before := made.get(graph.tensors[origin].site)) is not None and before not in seen:
            seen.add(before)
            origin = before
        out.append(origin)
    return out


def _looks_on(prices: Prices, site: int) -> bool:
    return prices.graph.kinds[site] in prices.traits.looks_at_shapes


def readable(amount: float, units: Sequence[tuple[str, int]] = BYTES) -> str:
    """An amount for people, in the unit that suits it."""
    name, size = next(((name, size) for name, size in units if amount >= size), units[-1])
    return f"{amount / size:.3g} {name}"
