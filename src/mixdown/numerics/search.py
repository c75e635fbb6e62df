"""A small set of ops that must stay in float32, found with few runs. Start with `smallest_kept`.

The ops have a fixed order. The shortest prefix of them that is enough to keep ends with an op that is needed: it is
found by halving. It is kept from then on, and the search goes on before it, until what was found is enough. With k ops
needed among n that takes at most k * (ceil(log2 n) + 1) + 1 runs.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item", bound="Hashable")


def smallest_kept(items: Sequence[Item], passes: Callable[[frozenset[Item]], bool]) -> tuple[list[Item], int]:
    """The items to keep so that `passes`, and how many runs it took to find them.

    Keeping all is assumed to pass. If keeping more never makes a set fail, no item of the result can be left out.
    """
    known = {frozenset(items): True}
    runs = 0

    def enough(kept: Iterable[Item]) -> bool:
        nonlocal runs
        if (key := frozenset(kept)) not in known:
            runs += 1
            known[key] = passes(key)
        return known[key]

    found: list[Item] = []
    end = len(items)
    while not enough(found):
        # The shortest prefix of items[:end] that is enough together with what was found ends with an op that is needed.
        failing, passing = 0, end
        while passing - failing > 1:
            middle = (failing + passing) // 2
            if enough((*items[:middle], *found)):
                passing = middle
            else:
                failing = middle
        known[frozenset((*items[:passing], *found))] = True
        end = passing - 1
        found.append(items[end])
    return [item for item in items if item in set(found)], runs
