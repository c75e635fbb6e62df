"""What 16 bits would ruin rather than round: `needs`, used where the rule set asks for it, and what is `spoilt` by it.

* Constants that the 16-bit dtype turns into Inf or 0, or keeps too few digits of: -1e9 in a mask, 1e-12 in a quotient.
* Digits that decide: what a sine, a floor, an equality or a cast to integers reads, through ops that only move or
  scale. A matrix product before them is an ordinary 16-bit value; its result is not rounded again on the way.
* Whole numbers: positions, counts and ids that became float32, as long as they are integers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from mixdown.core.graph import Constant, Graph, Role, walk
from mixdown.rules import Category, Traits
from mixdown.rules.formats import Format, value_of

FEW = 16
"""The largest number of elements of a constant each of which counts. Of a larger one, which usually is a trained
weight, the largest decides: that a few numbers next to it vanish is no loss."""


class Need(NamedTuple):
    """Why a site must stay full, as a category: deny if what follows it is in danger too."""

    category: Category
    reason: str
    is_small: bool = False  # what it makes is at worst too small for the dtype, not too large


class Subject(NamedTuple):
    """What `needs` looks at: a graph, what its kinds do, the category of every site by the lists, and the dtype."""

    graph: Graph
    traits: Traits
    categories: Sequence[Category]
    dtype: Format

    def mask(self, category: Category) -> list[bool]:
        """Per site, whether it is of this category."""
        return [its is category for its in self.categories]


def needs(subject: Subject, compared: Collection[int]) -> dict[int, Need]:
    """The sites that must stay full, each with its reason.

    Args:
        subject: the graph, and how it is seen.
        compared: comparisons that look for a selected value among those it was selected from: they have its dtype.
    """
    constants = _constants(subject)
    whole = dict(_whole_numbers(subject, constants))
    digits = dict(_deciding_digits(subject, constants, compared))
    return whole | digits | dict(_spoilt_constants(subject, constants))


def _constants(subject: Subject) -> dict[int, Constant]:
    """The sites that make nothing but a constant, also one that was only moved or passed to a function."""
    graph = subject.graph
    found = {tensor.site: tensor.constant for tensor in graph.tensors if tensor.constant is not None}
    queue = list(found)
    for here in queue:
        for reader in graph.successors[here]:
            if reader in found or subject.categories[reader] is not Category.CLEAR:
                continue
            parts = [found.get(site) for site in graph.predecessors[reader]]
            if (known := [part for part in parts if part is not None]) and len(known) == len(parts):
                found[reader] = _merged(known)
                queue.append(reader)
    return found


def _merged(parts: Sequence[Constant]) -> Constant:
    small = [part.smallest for part in parts if part.smallest] or [0.0]
    return Constant(
        min(small, key=abs),
        max((part.largest for part in parts), key=abs),
        whole=all(part.whole for part in parts),
        size=max(part.size for part in parts),
    )


def _spoilt_constants(subject: Subject, constants: Mapping[int, Constant]) -> Iterator[tuple[int, Need]]:
    """The readers of constants that the dtype cannot hold, and what only moves their results."""
    graph, low = subject.graph, subject.dtype.name
    computed: dict[bool, list[int]] = {True: [], False: []}  # whether what they make is small -> the readers
    for site, constant in constants.items():
        for reader in graph.successors[site]:
            category = subject.categories[reader]
            if category not in (Category.ALLOW, Category.INFER, Category.CLEAR):
                continue
            if graph.kinds[reader] in subject.traits.looks_at_shapes:
                continue
            if fate := _fate(constant, subject.dtype, product=category is Category.ALLOW):
                divides = constant.divides or graph.kinds[reader] in subject.traits.divides
                is_small = (abs(constant.largest) >= value_of(subject.dtype.too_large)) is divides
                yield reader, Need(Category.DENY, f"it reads the constant {fate}", is_small)
                if reader not in constants:
                    computed[is_small].append(reader)
    for is_small, makers in computed.items():
        for site, before in walk(makers, graph.successors, subject.mask(Category.CLEAR)).items():
            if site not in constants:
                reason = f"it may hold a value that {low} cannot, made by `{graph.label(before)}`"
                yield site, Need(Category.DENY, reason, is_small)


def spoilt(subject: Subject, found: Mapping[int, Need], last_sums: Collection[int]) -> set[int]:
    """What may hold a value that the dtype cannot, and must not. One that is too small does no harm in a sum.

    Nor does it where a value is only moved on to products, which round it in any case, and to sums.

    Args:
        subject: the graph, with the final category of every site.
        found: what `needs` returned.
        last_sums: sums of values that products read too.
    """
    graph, onward = subject.graph, subject.graph.successors
    made = {site: need.is_small for site, need in found.items() if need.category is Category.DENY}
    soft = [its in (Category.INFER, Category.CLEAR) for its in subject.categories]
    still = [its and kind not in subject.traits.absorbs for its, kind in zip(soft, graph.kinds, strict=True)]
    for site in last_sums:  # products round the same values
        still[site] = False
    small, large = (
        walk([s for s in made if made[s] is is_small], onward, still if is_small else soft)
        for is_small in (True, False)
    )
    harmless = {site for site in small if site not in made and _feeds_products(subject, site)}
    return {*made, *(small.keys() - harmless), *large}


def _feeds_products(subject: Subject, site: int) -> bool:
    """Whether a site moves a value on to products and sums only, to at least one product."""
    readers, kinds, traits = subject.graph.successors[site], subject.graph.kinds, subject.traits
    products = [reader for reader in readers if subject.categories[reader] is Category.ALLOW]
    summed = traits.absorbs | traits.totals
    return (
        subject.categories[site] is Category.CLEAR
        and bool(products)
        and all(reader in products or kinds[reader] in summed for reader in readers)
    )


def _fate(constant: Constant, dtype: Format, *, product: bool) -> str:
    """What a dtype would do to a constant that it cannot hold, "" if it can."""
    if abs(constant.largest) >= value_of(dtype.too_large):
        return f"{constant.largest:.4g}, which {dtype.name} turns into {'-' if constant.largest < 0 else ''}Inf"
    value = constant.largest if product or constant.size > FEW else constant.smallest
    if not 0 < abs(value) < dtype.smallest_normal:
        return ""
    lost = abs(value) < value_of(dtype.kept)
    return f"{value:.4g}, {f'which {dtype.name} turns into 0' if lost else f'of which {dtype.name} loses digits'}"


def _deciding_digits(
    subject: Subject, constants: Collection[int], compared: Collection[int]
) -> Iterator[tuple[int, Need]]:
    """The sites whose result the last digits of their input decide, and what moves or scales values before them."""
    graph, traits = subject.graph, subject.traits
    readers = [
        site
        for site, kind in enumerate(graph.kinds)
        if (kind in traits.digit_readers or graph.sites[site].role is Role.TRUNCATION) and site not in compared
    ]
    for site in readers:
        if _moves_or_scales(subject, site, constants):
            yield site, Need(Category.BARRIER, f"{graph.kinds[site]} depends on every digit of what it reads")
    ends = {site: site for site in readers}
    queue = list(readers)
    for after in queue:
        for site in graph.predecessors[after]:
            if site not in ends and _moves_or_scales(subject, site, constants):
                reader = ends[site] = ends[after]
                queue.append(site)
                reason = f"`{graph.label(reader)}` ({graph.kinds[reader]}) depends on every digit of its result"
                yield site, Need(Category.BARRIER, reason)


def _moves_or_scales(subject: Subject, site: int, constants: Collection[int]) -> bool:
    """Whether what a site makes is what it reads, moved, scaled or shifted by a constant."""
    category, kind, traits = subject.categories[site], subject.graph.kinds[site], subject.traits
    if category is not Category.INFER:
        return category is Category.CLEAR
    if kind in traits.scales or kind in traits.products:
        return True
    return kind in traits.whole and len({s for s in subject.graph.predecessors[site] if s not in constants}) <= 1


def _whole_numbers(subject: Subject, constants: Mapping[int, Constant]) -> Iterator[tuple[int, Need]]:
    """The sites that make integers of integers only, and matrix products that read one."""
    graph, dtype = subject.graph, subject.dtype
    integral = {site for site, constant in constants.items() if constant.whole}
    queue = [site for site, its in enumerate(graph.sites) if its.whole]
    queue = [site for site in queue if not any(s in constants and s not in integral for s in graph.predecessors[site])]
    found = integral | set(queue)
    rounded = f"integers, which {dtype.name} rounds above {dtype.whole}"
    for here in queue:
        yield here, Need(Category.BARRIER, f"it makes {rounded}")
        for reader in graph.successors[here]:
            if subject.categories[reader] is Category.ALLOW:
                yield reader, Need(Category.BARRIER, f"it reads {rounded}")
            elif reader not in found and _keeps_whole(subject, reader) and found.issuperset(graph.predecessors[reader]):
                found.add(reader)
                queue.append(reader)


def _keeps_whole(subject: Subject, site: int) -> bool:
    """Whether a site makes integers of integers."""
    category, kind = subject.categories[site], subject.graph.kinds[site]
    return category is Category.CLEAR or (category is Category.INFER and kind in subject.traits.whole)
