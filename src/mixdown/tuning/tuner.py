"""How the calls of one function run under a policy that is tuned: `Tuner`. Hosts make the calls, timed by `timed`.

What an earlier run found out is taken over. Else there is a race among the candidates, then one among those near the
winner, as long as calls are left. Calls with other shapes take another time, so they are not compared.
"""

import json
from collections.abc import Callable
from statistics import median
from threading import Lock
from time import perf_counter
from typing import TypeVar

from mixdown.core import Plan, Policy
from mixdown.messages import logger
from mixdown.tuning.candidates import candidates, refined
from mixdown.tuning.memory import Identity, Trial, Tuned, recall, store
from mixdown.tuning.race import ROUNDS, Race
from mixdown.untrusted.escaped import escaped

T = TypeVar("T")
Note = Callable[[float], None]
Share = Callable[[str], str]
"""Returns what the chief among several workers said; every worker calls it at the same calls of a function."""

BUDGET, SHARE = 200, 0.05
"""The calls that tuning takes at most, and which part of them if the policy says how many are expected."""

PATIENCE = 20
"""If other shapes are ahead by so many calls, those are tuned instead."""

_clock = Lock()  # calls at the same time would slow each other down: only one is timed


class Tuner:
    """The policy of each call of a function, given the plan that the policy to tune leads to as it is.

    `share` makes all workers of a cluster go by what the chief has timed; None if only one process calls the function.
    """

    def __init__(self, policy: Policy, plan: Plan, identity: Identity, share: Share | None = None) -> None:
        self._policy, self._plan, self._identity, self._share = policy, plan, identity, share
        self._shapes: object = None
        self._others = 0  # calls with other shapes, less those with these
        self.is_shared = share is not None
        self.tuned = recall(policy, identity)
        chosen = json.loads(self._said(self.tuned and self.tuned.policy.to_dict()))
        if chosen is not None:
            known = self.tuned and self.tuned.policy.to_dict() == chosen
            self.tuned = self.tuned if known else Tuned(*identity, "what the chief has", Policy.from_dict(chosen))
            self._log("as in an earlier run, ")
        self._begin()

    def next(self, shapes: object, plan_of: Callable[[Policy], Plan | None]) -> tuple[Policy, Note | None]:
        """The policy of the next call, and what to tell how long it took, None if that does not matter.

        `shapes` are those of its arguments; `plan_of` a policy is None if that leaves the function as it is.
        """
        if self.tuned is None and self._is_compared(shapes):
            while self.tuned is None and not self._admits(plan_of):
                self._advance()
            if self.tuned is None:
                turn = self._race
                return self._candidates[turn.next].policy, lambda seconds: self._note(turn, seconds)
        return (self.tuned.policy if self.tuned else self._candidates[0].policy), None

    def so_far(self) -> Tuned | None:
        """What was kept, or else what was timed."""
        return self.tuned or (
            Tuned(*self._identity, "", self._policy.untuned, found) if (found := self._trials()) else None
        )

    def _begin(self) -> None:
        calls = int(self._policy.expected_calls * SHARE) if self._policy.expected_calls else BUDGET
        self._candidates = candidates(self._plan, self._policy.or_low)
        self._race = Race.of(len(self._candidates), calls)
        self._plans: dict[int, Plan | None] = {}  # None if nothing changes by it
        self._earlier: tuple[Trial, ...] = ()  # of races before this one
        self._factor = 1.0  # the time of candidate 0 beside float32
        self._advance()

    def _is_compared(self, shapes: object) -> bool:
        if self.is_shared or shapes == self._shapes:
            self._others = max(0, self._others - 1)
            return True
        self._others += 1
        if self._shapes is None or self._others > PATIENCE:
            self._shapes, self._others = shapes, 0
            self._begin()
        return self._shapes == shapes

    def _admits(self, plan_of: Callable[[Policy], Plan | None]) -> bool:
        """Whether the next candidate has run before, or differs from all that have; if not, it is left out."""
        index = self._race.next
        if index not in self._plans:
            plan = plan_of(self._candidates[index].policy)
            plan = plan if plan and plan.changes_anything else None
            if any(_alike(plan, before) for before in self._plans.values()):
                self._race = self._race.without(index)
                return False
            self._plans[index] = plan
        return True

    def _note(self, turn: Race, seconds: float) -> None:
        if turn is self._race:  # else another thread was faster
            self._race = turn.after(seconds)
            self._advance()

    def _advance(self) -> None:
        while self.tuned is None and self._race.is_due:
            self._race = self._race.resumed(tuple(json.loads(self._said(self._race.verdict()))))
            if self._race.kept is not None:
                self._finish(self._race.kept)

    def _said(self, verdict: object) -> str:
        return (self._share or str)(json.dumps(verdict))

    def _finish(self, winner: int) -> None:
        """Keep the winner, or look further from there."""
        candidate, plan, left = self._candidates[winner], self._plans.get(winner), self._race.left
        more = refined(candidate, plan) if winner and plan else []
        if len(more) < 2 or left < (len(more) + 2) * (1 + ROUNDS):  # noqa: PLR2004 - itself and another
            self.tuned = Tuned(*self._identity, candidate.name, candidate.policy, self._trials())
            store(self._policy, self.tuned)
            self._log()
            return
        self._earlier, self._factor = self._trials(), self._factor * self._race.ratio(winner).median
        self._candidates, self._plans, self._race = more, {0: plan}, Race.of(len(more), left)

    def _trials(self) -> tuple[Trial, ...]:
        """What was timed, float32 first."""
        timed = [index for index, times in enumerate(self._race.times) if times]
        return (*self._earlier, *map(self._trial, timed[bool(self._earlier) :]))

    def _trial(self, index: int) -> Trial:
        times, beside = self._race.times[index], [self._factor * each for each in self._race.ratio(index)]
        return Trial(self._candidates[index].name, len(times), median(times), *beside)

    def _log(self, when: str = "") -> None:
        logger().info(
            "function %s on %s: %s%s", escaped(self._identity.function), self._identity.device, when, self.tuned
        )


def _alike(one: Plan | None, other: Plan | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.policy.low == other.policy.low and one.paints == other.paints


def timed(call: Callable[[], T], synchronize: Callable[[], object], note: Note, *, wait: bool = False) -> T:
    """Make a call between two moments at which `synchronize` finds the devices idle, and tell its seconds to `note`.

    A call that fails is not noted, and one that comes while another is being timed neither, unless it is to `wait`.
    """
    if not _clock.acquire(blocking=wait):
        return call()
    try:
        synchronize()
        start = perf_counter()
        result = call()
        synchronize()
        seconds = perf_counter() - start
    finally:
        _clock.release()
    note(seconds)
    return result
