"""A small set of ops that must stay in float32, found with few runs. Start with `smallest_kept`.

The ops have a fixed order. The shortest prefix of them that is enough to keep ends with an op that is needed: it is
found by halving. It is kept from then on, and the search goes on before it, until what was found is enough. With k ops
needed among n that takes at most k * (ceil(log2 n) + 1) + 1 runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

Item = TypeVar("Item", bound="Hashable")


class Trials(Generic[Item]):
    """Results of a test function, which is run once for each set."""

    def __init__(self, passes: Callable[[frozenset[Item]], bool]) -> None:
        self._passes = passes
        self._known: dict[frozenset[Item], bool] = {}
        self.runs = 0

    def note(self, kept: frozenset[Item], *, passes: bool) -> None:
        """Record a result that is known without a run."""
        self._known[kept] = passes

    def __call__(self, kept: frozenset[Item]) -> bool:
        """Whether keeping these is enough."""
        if kept not in self._known:
            self.runs += 1
            self._known[kept] = self._passes(kept)
        return self._known[kept]


def smallest_kept(items: Sequence[Item], passes: Callable[[frozenset[Item]], bool]) -> tuple[list[Item], int]:
    """The items to keep so that `passes`, and how many runs it took to find them.

    Keeping all is assumed to pass. If keeping more never makes a set fail, no item of the result can be left out.
    """
    trials = Trials(passes)
    trials.note(frozenset(items), passes=True)
    found: list[Item] = []
    end = len(items)
    while not trials(frozenset(found)):
        end = _shortest_prefix(items, end, found, trials)
        found.append(items[end])
    return [item for item in items if item in set(found)], trials.runs


def _shortest_prefix(items: Sequence[Item], end: int, found: Sequence[Item], trials: Trials[Item]) -> int:
    """The last position of the shortest prefix of `items[:end]` that passes together with what was found."""
    failing, passing = 0, end
    while passing - failing > 1:
        middle = (failing + passing) // 2
        if trials(frozenset((*items[:middle], *found))):
            passing = middle
        else:
            failing = middle
    trials.note(frozenset((*items[:passing], *found)), passes=True)
    return passing - 1
