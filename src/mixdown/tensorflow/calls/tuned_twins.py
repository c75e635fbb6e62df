"""Twins under `Policy(strategy="tuned")`: the first calls of a function run several in turn, and the fastest is kept.

Each candidate has `Twins` of its own, so a call that is tuned is an ordinary call of one of them, but for the clock.
Once a function has its twin, the call hook finds it in `known`, as it finds any other.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mixdown.core import Policy
from mixdown.rules.layer_names import python_name
from mixdown.tensorflow.calls.twins import Twin, Twins
from mixdown.tensorflow.machine.devices import described, device_type, machine_default, versions
from mixdown.tensorflow.machine.workers import said_by_chief, synchronize
from mixdown.tuning.memory import Identity, fingerprint
from mixdown.tuning.tuner import Note, Tuner, timed


class TunedTwins(Twins):
    """The twins made for a policy that is tuned, and for all its candidates."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._base = Twins(policy.untuned, candidate=True)
        self._base.rules = self.rules
        self._twins = {policy.untuned: self._base}
        self._tuners: dict[tuple[bytes, str], Tuner | None] = {}  # None for functions that no plan changes
        self._under_way = 0  # calls of candidates

    def of(self, context: Any, name: bytes, device: str, inputs: Sequence[Any] = ()) -> Twin:
        """The twin that runs this call, with a timer for it as long as the function is tuned."""
        with self._lock:
            key = (name, device_type(device) or machine_default())
            if key not in self._tuners:
                self._tuners[key] = self._tuner(key, self._base.of(context, name, device, inputs))
            tuner = self._tuners[key]
            if tuner is None:
                return self._known(self._base, context, name, device, inputs)

            def of(policy: Policy) -> Twin:
                return self._of(policy).of(context, name, device, inputs)

            shapes = tuple(tuple(tensor.shape) for tensor in inputs)
            policy, note = tuner.next(shapes, lambda policy: of(policy).plan)
            if tuner.tuned is not None:
                return self._known(self._of(policy), context, name, device, inputs)
            self._under_way += 1
            return of(policy)._replace(timer=partial(self._timed, context, name, tuner, note))

    def made(self) -> list[tuple[str, str, Twin]]:
        """Every function with the twin that it has now, and what was timed."""
        with self._lock:
            out, made = [], dict[Policy, dict[tuple[str, str], Twin]]()
            for (name, device), tuner in self._tuners.items():
                found, key = tuner.so_far() if tuner else None, (name.decode(), device)
                policy = found.policy if found else self.policy.untuned
                if policy not in made:
                    made[policy] = {each[:2]: each[2] for each in self._of(policy).made()}
                if key in made[policy]:
                    out.append((*key, made[policy][key]._replace(tuned=found)))
            return out

    def choices(self) -> dict[str, Policy]:
        """What is kept, by the fingerprint of a function."""
        with self._lock:
            found = [tuner.tuned for tuner in self._tuners.values() if tuner and tuner.tuned]
            return {each.graph: each.policy for each in found}

    def tell_idle_rules(self) -> None:
        """Warn of rules that matched nothing, if a training step was made at all."""
        self._base.tell_idle_rules()

    def unlock(self) -> None:
        """Replace all locks, in a forked process."""
        super().unlock()
        for twins in self._twins.values():
            twins.unlock()

    def forget(self, name: bytes) -> list[str]:
        """Drop the twins of a function that is removed; returns the names to unregister."""
        with self._lock:
            super().forget(name)
            self._tuners = {key: tuner for key, tuner in self._tuners.items() if key[0] != name}
            registered = [each for twins in self._twins.values() for each in twins.forget(name)]
            self.gone += bool(registered)
        return registered

    def _of(self, policy: Policy) -> Twins:
        if policy not in self._twins:
            self._twins[policy] = Twins(policy, candidate=True)
        return self._twins[policy]

    def _known(self, twins: Twins, context: Any, name: bytes, device: str, inputs: Sequence[Any]) -> Twin:
        twin = twins.of(context, name, device, inputs)
        if (name, device) in twins.known:  # it waits for a second call as long as rules have matched nothing
            self.known[name, device] = twin
        return twin

    def _tuner(self, key: tuple[bytes, str], base: Twin) -> Tuner | None:
        if base.plan is None or not base.plan.changes_anything:
            return None
        kinds = {node.op for body in base.reading.bodies for node in body.nodes} if base.reading else set()
        together = any(kind.startswith("Collective") for kind in kinds)  # no worker can call it alone
        identity = Identity(python_name(key[0].decode()), fingerprint(base.plan), described(key[1]), versions())
        return Tuner(self.policy, base.plan, identity, said_by_chief if together else None)

    def _timed(self, context: Any, name: bytes, tuner: Tuner, note: Note | None, call: Callable[[], Any]) -> Any:
        """Make a call; after the last one, unregister what the candidates have registered that were not kept."""

        def noted(seconds: float) -> None:
            with self._lock:
                note(seconds)  # type: ignore[misc]  # not None

        try:
            if note is None:
                return call()
            return timed(call, synchronize, noted, wait=tuner.is_shared)
        finally:
            with self._lock:
                self._under_way -= 1
                if tuner.tuned is not None and not self._under_way:
                    others = [twins for policy, twins in self._twins.items() if policy != tuner.tuned.policy]
                    for registered in [each for twins in others for each in twins.forget(name)]:
                        context.remove_function(registered)
