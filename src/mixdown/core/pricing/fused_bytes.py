"""Prices under a compiler that fuses: what its kernels write and read. Start with `FusedPrices`; the model is `Fusion`.

Inside a kernel float32 arithmetic and casts are free, so a dtype matters only where a value is stored; elsewhere the
fewest casts decide. A value that a library call reads in 16 bits, and that others compute again from what they read
anyway, stays float32: that keeps the compiler from making the others read it too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from mixdown.core.graph import Graph
from mixdown.core.pricing.fusion import Fusion
from mixdown.core.pricing.moved_bytes import LOW_BYTES, Bond, Prices
from mixdown.rules import Category, Traits

FULL_BYTES = 2 * LOW_BYTES
HINT = 1
"""One byte, to decide between equal costs."""


class FusedPrices(Prices):
    """The prices of a graph of which parts, or all, are compiled; the rest costs what it costs without a compiler."""

    local = False

    def __init__(
        self,
        graph: Graph,
        traits: Traits,
        categories: Sequence[Category],
        supports: Sequence[bool],
        free: Collection[int],
    ) -> None:
        super().__init__(graph, traits)
        self._kinds = graph.kinds
        self._savings: dict[int, int] = {}
        self._bonds: dict[int, list[Bond]] = {}
        self._products = {s for s, its in enumerate(categories) if its is Category.ALLOW and supports[s]}
        self._free = free
        compiled = [graph.ops[site.op].compiled for site in graph.sites]
        self._fused = [
            its or (kind in traits.arguments and any(compiled[reader] for reader in readers))
            for its, kind, readers in zip(compiled, graph.kinds, graph.successors, strict=True)
        ]

    @cached_property
    def fusion(self) -> Fusion:
        """The graph as compiled."""
        sizes = [self.elements(tensor) for tensor in range(len(self.graph.tensors))]
        return Fusion(self.graph, self.traits, sizes, self._fused, self._products, self._free)

    def low(self, site: int) -> int:
        """What is stored of a site's values, and read again, if they have 16 bits."""
        return self._stored(site)[0] if self._fused[site] else super().low(site)

    def full(self, site: int) -> int:
        """The same in float32."""
        return self._stored(site)[1] if self._fused[site] else 2 * super().low(site)

    def saving(self, site: int) -> int:
        """What the op saves by 16 bits; asked for in each attempt of the cut."""
        if site not in self._savings:
            low, full = self._stored(site) if self._fused[site] else (self.low(site), self.full(site))
            self._savings[site] = full - low
        return self._savings[site]

    def is_stored_wider(self, site: int) -> bool:
        """Whether a compiler stores a value in float32, for certain, that it could store in 16 bits."""
        return not self.fusion.stored_in_full.isdisjoint(self.fusion.made[site])

    def bonds(self, tensor: int) -> list[Bond]:
        """What it costs if a value and its readers have different paints: kernels take casts in."""
        found = self._bonds.get(tensor)
        if found is None:
            found = self._bonds[tensor] = self._find_bonds(tensor)
        return found

    def _find_bonds(self, tensor: int) -> list[Bond]:
        made = self.graph.tensors[tensor]
        if not self._fused[made.site]:
            return super().bonds(tensor)
        needless = Bond(made.consumers, 2 * HINT)
        dear = self._dear_bond(tensor)
        if dear is not None:
            return [needless, dear]
        special = self._has_special_bonds
        if not special[made.site] and True not in [special[site] for site in made.consumers]:
            return [needless]
        # A table is cast as a whole.
        tables = [Bond((s,), self.cast(tensor)) for s in made.consumers if self._kinds[s] in self.traits.lookups]
        # A view shows what is stored: better the 16 bits that a product reads than the float32 behind them.
        shown = [Bond((s,), 4 * HINT) for s in made.consumers if self.fusion.views[made.site] and s in self._products]
        # Moving 16 bits is less than moving float32, and a value that is moved is not rounded for that alone.
        moved = [Bond((s,), 6 * HINT) for s in made.consumers if self._kinds[s] in self.traits.moves]
        # What all its readers round is rounded before it is moved.
        if self._kinds[made.site] in self.traits.moves:
            moved.append(Bond(made.consumers, 7 * HINT, only_down=True))
        return [needless, *tables, *shown, *moved]

    def _dear_bond(self, tensor: int) -> Bond | None:
        """What it costs if some readers of a value are full, where it is stored in float32 for these."""
        made, fusion = self.graph.tensors[tensor], self.fusion
        kind, value, price = self._kinds[made.site], fusion.values[tensor], fusion.prices[tensor]
        if kind in self.traits.normalizations and made.consumers and not value.libraries:
            # The kernel of a softmax rounds what it stores, if that is all that is read of it.
            saved = LOW_BYTES * self.elements(tensor) * (1 + len(value.kernels))
            return Bond(made.consumers, saved, only_up=True, as_if_low=True)
        if kind in self.traits.widened and price and price[1] > price[0]:
            # Its last step is float32: a compiler leaves out that it is rounded and widened again.
            return Bond(made.consumers, price[1] - price[0], only_up=True)
        return None

    @cached_property
    def _has_special_bonds(self) -> list[bool]:
        """Per site, whether there is more to say of what it makes or reads than that a cast is needless."""
        special = self.traits.lookups | self.traits.moves
        return [view or kind in special for view, kind in zip(self.fusion.views, self._kinds, strict=True)]

    def is_kept(self, tensor: int) -> bool:
        """Whether an element-wise value is stored, because computing it for each of its readers would cost more."""
        return self.fusion.values[tensor].stored

    def pays_to_store(self, tensor: int) -> bool:
        """Whether to store a value in 16 bits moves fewer bytes than to compute it again for each of its readers."""
        return self.fusion.pays_to_store(tensor)

    def _stored(self, site: int) -> tuple[int, int]:
        kind, fusion = self._kinds[site], self.fusion
        if kind in self.traits.views:
            return 0, HINT
        low = full = 0
        for tensor in fusion.made[site]:
            if (price := fusion.prices[tensor]) is not None:
                low, full = low + price[0] + self._needless_rounding(tensor), full + price[1]
                continue
            value = fusion.values[tensor]
            count = self.elements(tensor) * (1 + len(value.kernels) + len(value.libraries))
            low, full = low + LOW_BYTES * count, full + FULL_BYTES * count
        return low, full

    def _needless_rounding(self, tensor: int) -> int:
        """A multiple of one value, which nobody stores, need not be rounded, nor the constant in it."""
        low, full = self.fusion.prices[tensor] or (0, 0)
        if low != full or self._kinds[self.graph.tensors[tensor].site] not in self.traits.multiplies:
            return 0
        return 5 * HINT if self._is_multiple(tensor) else 0

    def _is_multiple(self, tensor: int) -> bool:
        """Whether a value is made of one other, element by element, and that is no softmax."""
        fusion = self.fusion
        first = True
        while fusion.elementwise[site := self.graph.tensors[tensor].site]:
            large = [i for i in fusion.read[site] if fusion.sizes[i] > 1]
            if self._kinds[site] in self.traits.normalizations | self.traits.spreads or (first and len(large) != 1):
                return False
            if len(large) != 1:
                break
            tensor, first = large[0], False
        return True
