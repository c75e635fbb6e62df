"""Twins of functions: the rewritten copies that are run in place of the originals. Start with `Twins.of`."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple

from mixdown.core import Plan, Policy
from mixdown.core.gc_pause import collector_paused
from mixdown.core.rule_watch import RuleWatch
from mixdown.errors import MixdownError
from mixdown.keras3.either_keras import mixed_keras_policy
from mixdown.messages import logger, warn
from mixdown.rules.layer_names import python_name
from mixdown.tensorflow.calls.tracing_time import planning_time
from mixdown.tensorflow.machine.devices import device_type, machine_default
from mixdown.tensorflow.reading.read import Reading, is_idle
from mixdown.tensorflow.runtime.private import context as eager_context
from mixdown.tensorflow.shapes.variable_handles import handles_of_inputs
from mixdown.tensorflow.writing.function_family import rewrite_function
from mixdown.tensorflow.writing.known_plans import Asked, KnownPlans
from mixdown.tuning.memory import Tuned
from mixdown.untrusted.escaped import escaped

SELF_TEST = "mixdown_self_test"
"""In the name of the function by which `call_hook.works` tests the hook: it is neither logged nor reported."""


class Twin(NamedTuple):
    """The function to call instead of another one, all functions registered with it, and the plan that they follow."""

    name: bytes
    originals: Mapping[str, str]  # registered twin -> original
    plan: Plan | None  # None if no plan could be made, or none was needed yet
    reason: str  # why the function runs as it is, "" if it has a twin
    reading: Reading | None = None  # what the plan was made from
    idle: bool = False  # no plan could change it, so none was made
    timer: Callable[[Callable[[], Any]], Any] | None = None  # makes the call and takes note of how long it took
    tuned: Tuned | None = None  # what was timed so far


class Registered(Mapping[str, Any]):
    """The functions that a TensorFlow context knows, by name, each fetched at its first use."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._found: dict[str, Any] = {}

    def fetch(self, name: str) -> Any:
        """A function, as a copy that the caller may change."""
        return self._context.get_function_def(name)

    def __contains__(self, name: object) -> bool:
        if name not in self._found:
            self._found[str(name)] = self.fetch(str(name)) if self._context.has_function(name) else None
        return self._found[str(name)] is not None

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._context.list_function_names())

    def __len__(self) -> int:
        return len(self._context.list_function_names())

    def __bool__(self) -> bool:
        return True


class Twins:
    """The twins made for one policy; little is said about a candidate, one of several that are tried."""

    def __init__(self, policy: Policy, *, candidate: bool = False) -> None:
        self.policy, self._log_level = policy, logging.DEBUG if candidate else logging.INFO
        self.known: dict[tuple[bytes, str], Twin] = {}  # by the name of the function and the device it is called on
        self.rules = RuleWatch(Policy() if candidate else policy)
        self.gone = 0  # how many functions that had a twin were removed
        self._made: dict[tuple[bytes, str], Twin] = {}  # by the name and the type of the device: a twin suits all of it
        self._groups: dict[str, bytes] = {}
        self._known_plans = KnownPlans()
        self._lock = RLock()

    def of(self, context: Any, name: bytes, device: str, inputs: Sequence[Any] = ()) -> Twin:
        """The twin of a function, made on first use; `inputs` is what it is called with, variables included."""
        with self._lock:
            key = (name, device_type(device) or machine_default())
            is_called_again = key in self._made
            if not is_called_again:
                self._make(context, key, inputs)
            twin = self._made[key]
            if self.rules.awaits(twin.plan):
                if not is_called_again:
                    return twin  # not yet known: the next call comes here again
                self.rules.step_is_over()  # every function of a step was called since the first call
            self.known[name, device] = twin
            return twin

    def tell_idle_rules(self) -> None:
        """Warn of rules that matched nothing, if a training step was made at all."""
        if any(self.rules.awaits(twin.plan) for twin in list(self._made.values())):
            self.rules.step_is_over()

    def made(self) -> list[tuple[str, str, Twin]]:
        """Every twin there is now, with the name of its function and the type of device."""
        with self._lock:
            made = [(name.decode(), device, twin) for (name, device), twin in self._made.items()]
            return [(*one[:2], self._planned(*one)) for one in made if SELF_TEST not in one[0]]

    def _planned(self, name: str, device: str, twin: Twin) -> Twin:
        """A twin with the plan that says why nothing changes, which is made only now that somebody asks."""
        if not twin.idle:
            return twin
        try:
            plan, reading, _ = rewrite_function(Registered(eager_context()), Asked(name, self.policy, device, {}))
        except (KeyError, MixdownError):  # it is gone, or cannot be read
            return twin  # a report then says no more than that
        return twin._replace(plan=plan, reading=reading)

    def unlock(self) -> None:
        """Replace the lock, in a forked process: the thread that holds it may not exist there."""
        self._lock = RLock()

    def forget(self, name: bytes) -> list[str]:
        """Drop the twins of a function that is removed; returns the names to unregister."""
        with self._lock:
            for key in [key for key in list(self.known) if key[0] == name]:
                del self.known[key]
            gone = [self._made.pop(key) for key in list(self._made) if key[0] == name]
            registered = [twin for one in gone for twin in one.originals]
            for function in (name.decode(), *registered):
                self._groups.pop(function, None)
            self.gone += bool(registered) and SELF_TEST not in name.decode()
        return registered

    def _make(self, context: Any, key: tuple[bytes, str], inputs: Sequence[Any]) -> None:
        name, device = key
        if SELF_TEST not in name.decode() and (conflict := mixed_keras_policy()):
            warn(
                f"The dtype policy {conflict} was set after mixed precision was enabled: both now choose precisions. "
                f"Set the policy 'float32' again, or call mixdown.disable_mixed_precision_graph_rewrite().",
            )
        try:
            with collector_paused(), planning_time(name.decode()):
                twin, definitions = self._rewrite(context, name, device, inputs)
            self._admit(context, key, twin, definitions)
        except Exception as error:  # noqa: BLE001 - whatever it is, the original can run as it was
            fault = "That is a fault of mixdown, not of your function: please report it."
            strange = f"rewriting it failed with {type(error).__name__}: {error}. {fault}"
            reason = str(error) if isinstance(error, MixdownError) else strange
            warn(f"Function {name.decode()} runs in float32: {reason}")
            self._made[key] = Twin(name, {}, None, reason)

    def _rewrite(self, context: Any, name: bytes, device: str, inputs: Sequence[Any]) -> tuple[Twin, list[Any]]:
        library = Registered(context)
        if is_idle(name.decode(), library, self.policy):
            reason = f"no op in it can run in {self.policy.low}"
            _log(name.decode(), device, logging.DEBUG, reason)
            return Twin(name, {}, None, reason, idle=True), []
        asked = Asked(name.decode(), self.policy, device, handles_of_inputs(inputs))
        plan, reading, twins = rewrite_function(library, asked, self._groups, self._known_plans)
        if SELF_TEST not in asked.root:
            self.rules.see(plan)
        outcome, level = (plan.summary, self._log_level) if plan.changes_anything else (plan.idle_reason, logging.DEBUG)
        _log(asked.root, asked.device, level, outcome)
        if not twins:
            return Twin(name, {}, plan, plan.idle_reason, reading), []
        originals = {twin.signature.name: original for original, twin in twins}
        made = Twin(twins[0][1].signature.name.encode(), originals, plan, "", reading)
        return made, [twin for _, twin in twins]

    def _admit(self, context: Any, key: tuple[bytes, str], twin: Twin, definitions: Sequence[Any]) -> None:
        """Register a twin and remember it: both, or neither if that fails or is interrupted."""
        try:
            for definition in definitions:
                context.add_function_def(definition)
            self._made[key] = twin
        finally:
            if key not in self._made:
                for name in filter(context.has_function, twin.originals):
                    context.remove_function(name)


def _log(function: str, device: str, level: int, outcome: str) -> None:
    if SELF_TEST not in function:
        logger().log(level, "function %s on %s: %s", escaped(python_name(function)), device, outcome)
