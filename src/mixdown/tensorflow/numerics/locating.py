"""`mixdown.numerics.locating`: watch a whole program until its numbers go bad for the first time."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.numerics.locate import located
from mixdown.tensorflow.numerics.probing.health import Health
from mixdown.tensorflow.numerics.probing.observed_calls import observed
from mixdown.tensorflow.numerics.probing.runs import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mixdown.core import Policy
    from mixdown.numerics.location import Location
    from mixdown.tensorflow.numerics.probing.observed_calls import Leave, Make


@contextmanager
def locating(report: Callable[[Location], object] | None = None) -> Iterator[list[Location]]:
    """Run what this thread calls inside the block with probes, until an op makes Inf or NaN of finite inputs.

    Unlike `locate`, nothing runs twice and nothing is put back: this is the run itself, slower up to the first find,
    and at full speed from then on. Only calls for which a policy is in force are probed.

    Args:
        report: called with the find.

    Yields:
        A list that holds the find once there is one.
    """
    found: list[Location] = []
    with ExitStack() as stack:
        watch = _Watch(stack)

        def observer(context: Any, name: bytes, make: Make, leave: Leave) -> Any:
            policy = active_policy.current_policy()
            if found or policy is None:
                return leave()
            try:
                return watch.call(policy, context, name, make)
            finally:
                if location := watch.find(policy):
                    found.append(location)
                    if report is not None:
                        report(location)

        with observed(observer):
            yield found


class _Watch:
    """A probed run for every policy that comes to be in force."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._runs: dict[Policy, tuple[Health, Run]] = {}

    def call(self, policy: Policy, context: Any, name: bytes, make: Make) -> Any:
        if policy not in self._runs:
            health = Health()
            self._runs[policy] = health, self._stack.enter_context(Run(health, policy, full=False, lenient=False))
        return self._runs[policy][1].call(context, name, make)

    def find(self, policy: Policy) -> Location | None:
        """The op to blame for what the latest call did; what the probes saw is forgotten."""
        health = self._runs[policy][0]
        location = located(health)
        health.executions.clear()
        health.captures.clear()
        return location
