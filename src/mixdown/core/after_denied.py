"""What a denied op makes unsafe in compiled code, where a value may be stored in 16 bits: `after_denied`.

The results of a denied op that may make large numbers of small ones, such as Exp or a long Sum, are unsafe, and so is
what is computed from them number by number, up to a function such as Tanh, which limits whatever it is given, Inf
included. The results of others, such as Mean and Softmax, are no larger than what they are given, and so is a value
that is divided by a constant too large for 16 bits, as in the gradient of a mean; a sum of few numbers grows no more
than AddN, which may be 16-bit, and less than matrix products. A statistic (a mean, a variance) must be exact, and so
must the arithmetic that applies it to the values it was taken of; the result of that is a normalized value, which is as
safe as any other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mixdown.core.graph import Graph, walk
from mixdown.rules import Category, Traits

FEW = 64
"""A sum of so many numbers is a short one: gradients of heads that share an input, for example."""


def after_denied(
    graph: Graph, traits: Traits, categories: Sequence[Category], sizes: Sequence[int], small: Collection[int]
) -> set[int]:
    """The infer and clear sites that must stay float32 because of denied ops before them.

    Args:
        graph: the graph.
        traits: what its kinds do.
        categories: per site, its category.
        sizes: per tensor, how many numbers it holds.
        small: denied sites whose results are smaller than what they are given.
    """
    denied = [site for site, its in enumerate(categories) if its is Category.DENY]
    if not denied:
        return set()
    soft = [its in (Category.INFER, Category.CLEAR) for its in categories]
    own = [0] * len(graph.sites)
    for size, tensor in zip(sizes, graph.tensors, strict=True):
        own[tensor.site] = max(own[tensor.site], size)
    reached = {*denied, *walk(denied, graph.successors, [its is not Category.ALLOW for its in categories])}
    unsafe = {
        reader
        for size, tensor in zip(sizes, graph.tensors, strict=True)
        if tensor.site in reached
        for reader in tensor.consumers
        if categories[reader] is Category.INFER and 2 * size <= own[reader]
    }
    read = [0] * len(graph.sites)
    for size, tensor in zip(sizes, graph.tensors, strict=True):
        for reader in tensor.consumers:
            read[reader] = max(read[reader], size)
    short = {site for site in denied if graph.kinds[site] in traits.totals and read[site] <= FEW * own[site]}
    growing = [
        site for site in denied if site not in short and site not in small and graph.kinds[site] not in traits.tame
    ]
    for site, kind in enumerate(graph.kinds):
        if kind in traits.limited:
            soft[site] = False  # what grows is limited here
    return unsafe | _grown(graph, growing, soft, own)


def _grown(graph: Graph, growing: Sequence[int], soft: Sequence[bool], own: Sequence[int]) -> set[int]:
    """What is computed, number by number, from results that may be large."""
    queue, found = list(growing), set[int]()
    for here in queue:
        for reader in graph.successors[here]:
            if soft[reader] and reader not in found and 2 * own[here] > own[reader]:
                found.add(reader)
                queue.append(reader)
    return found
