"""A step run with probes in it (`Run`), and the state of the program put back afterwards (`kept`).

A run copies every function that the step calls, lets a probe write into the copies, runs them in the originals' place,
and collects what the probe saw after every call.
"""

import gc
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Self

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.config_pb2 import ConfigProto

from mixdown.core import Policy
from mixdown.core.policy import policy_or
from mixdown.errors import MixdownError
from mixdown.messages import warn
from mixdown.tensorflow.calls import active_policy
from mixdown.tensorflow.calls.call_hook import ObservedCall, observed
from mixdown.tensorflow.install import install
from mixdown.tensorflow.machine.devices import device_type, machine_default
from mixdown.tensorflow.numerics.probing.channel import Channel
from mixdown.tensorflow.numerics.probing.trees import ProbedTree, copy_tree
from mixdown.tensorflow.runtime.private import EagerTensor, FunctionCallOptions
from mixdown.tensorflow.runtime.source_lines import name_originals


class Probe(Protocol):
    """What is observed in a run; the run closes its channels."""

    channels: tuple[Channel[Any], ...]

    def instrument(self, tree: ProbedTree) -> None:
        """Write probes into the copies of a function and of all it calls."""

    def collect(self) -> None:
        """Take in what the probes saw in the call that has just been made."""


class Run:
    """Probed copies of functions, for as long as the `with` block lasts.

    They run by the policy, or if `full` in float32; if `lenient`, the users' checks and assertions let values pass.
    """

    def __init__(self, probe: Probe, policy: Policy, *, full: bool, lenient: bool = True) -> None:
        self._probe, self._policy, self._full, self._lenient = probe, policy, full, lenient
        self._trees: dict[tuple[bytes, str], ProbedTree | None] = {}
        self._context: Any = None
        self.calls = 0  # of functions that were probed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for tree in self._trees.values():
            for copy in tree.originals if tree else ():
                self._context.remove_function(copy)
        for channel in self._probe.channels:
            channel.close()

    def __call__(self, step: Callable[..., Any], *args: Any) -> Any:
        """What a step returns; the functions it calls, of which there must be one, run with probes."""
        before = self.calls
        install()
        with observed(self.call):
            result = step(*args)
        if self.calls == before:
            raise MixdownError(
                f"{getattr(step, '__name__', None) or step} called no tf.function that could be probed: put its work "
                f"into a tf.function (for Keras, compile with run_eagerly=False)."
            )
        return result

    def call(self, call: ObservedCall) -> Any:
        """Make one call of a function, with probes."""
        key = (call.name, device_type(call.context.device_name) or machine_default())
        if key not in self._trees:
            self._context = call.context
            self._trees[key] = self._copy(call.name.decode(), key[1])
        tree = self._trees[key]
        if tree is None:
            return call.as_is(call.name)
        self.calls += 1
        try:
            with _unoptimized(call.context):
                return call.as_is(tree.name)
        except tf.errors.OpError as error:
            name_originals(error, call.context, tree.originals)
            raise
        finally:
            self._probe.collect()

    def _copy(self, name: str, device: str) -> ProbedTree | None:
        """The probed copies of a function and of all it calls, registered; None if it cannot be read."""
        try:
            tree = copy_tree(self._context, name, device, self._policy, full=self._full, lenient=self._lenient)
        except MixdownError as error:
            warn(f"Function {name} runs without probes: {error}")
            return None
        for function in (each for each in tree.functions if not each.can_be_probed):
            warn(
                f"The ops of function {function.original} are not probed: it has the control flow of "
                f"TensorFlow 1 (Switch, Merge), in which an op may not run. Use tf.cond and tf.while_loop of "
                f"TensorFlow 2.",
            )
        self._probe.instrument(tree)
        for function in tree.functions:
            self._context.add_function_def(function.function)
        return tree


def chosen_policy(policy: Policy | None) -> tuple[Policy, bool]:
    """The policy given, or in force, or the default one; and whether everything runs in float32 under it here."""
    policy = policy_or(policy, active_policy.current_policy() or Policy())
    return policy, not active_policy.has_effect(policy)


@contextmanager
def _unoptimized(context: Any) -> Iterator[None]:
    """Calls inside the block run as they are written: TensorFlow's graph optimizers would fold and fuse probed ops."""
    before = context.function_call_options
    config = ConfigProto.FromString(context.config.SerializeToString())
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    context.function_call_options = FunctionCallOptions(before.executor_type, config)
    try:
        yield
    finally:
        context.function_call_options = before


class Snapshot:
    """Variables and generators as they are now. It holds references: TensorFlow copies what is written to later."""

    def __init__(self, variables: Iterable[Any]) -> None:
        self._values = [(variable, variable.read_value()) for variable in variables]
        # The global generator is what users' steps draw from.
        self._generators = random.getstate(), np.random.get_state()  # noqa: NPY002 - see above

    def restore(self) -> None:
        """Make everything bit for bit what it was."""
        for variable, value in self._values:
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
        random.setstate(self._generators[0])
        np.random.set_state(self._generators[1])  # noqa: NPY002 - see above


@contextmanager
def kept() -> Iterator[Callable[[], None]]:
    """Afterwards every variable that existed before is as it was; yields a way to do that in between.

    Not kept: what a dataset iterator has handed out, and tables, stacks and queues of the program's own.
    """
    snapshot = Snapshot(_variables())
    try:
        yield snapshot.restore
    finally:
        snapshot.restore()


def _variables() -> list[Any]:
    """Every variable of this process: a step may write any, in the functions it calls or by eager ops between them."""
    kinds: dict[type, bool] = {}
    found = []
    for candidate in gc.get_objects():
        kind = type(candidate)
        if kind not in kinds:
            kinds[kind] = isinstance(kind, type) and issubclass(kind, tf.Variable)
        if kinds[kind] and _holds_a_value(candidate):
            found.append(candidate)
    return found


def _holds_a_value(variable: Any) -> bool:
    if isinstance(variable, tf.distribute.DistributedValues):  # its parts are variables of their own
        return False
    handle = getattr(variable, "handle", None)
    return isinstance(handle, EagerTensor) and bool(variable.is_initialized())
