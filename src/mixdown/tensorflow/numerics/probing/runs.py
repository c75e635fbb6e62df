"""One run of a step with probes in it. Start with `Run`.

It copies every function that the step calls, lets a probe write into the copies, runs them in the originals' place, and
collects what the probes saw after every call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

import tensorflow as tf

from mixdown.errors import MixdownError
from mixdown.messages import warn
from mixdown.tensorflow.calls.error_names import name_originals
from mixdown.tensorflow.calls.twins import Twin
from mixdown.tensorflow.machine.devices import device_type, machine_default
from mixdown.tensorflow.numerics.probing.observed_calls import observed, unoptimized
from mixdown.tensorflow.numerics.probing.trees import grow

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixdown.core import Policy
    from mixdown.tensorflow.numerics.probing.observed_calls import Make
    from mixdown.tensorflow.numerics.probing.trees import Tree


class Probe(Protocol):
    """What is looked at in a run."""

    def instrument(self, tree: Tree) -> None:
        """Write probes into the copies of a function and of all it calls."""

    def collect(self, tree: Tree) -> None:
        """Take in what the probes saw in the call that has just been made."""

    def close(self) -> None:
        """Free what the probe holds in the runtime."""


class Run:
    """Probed copies of functions, for as long as the `with` block lasts.

    Args:
        probe: what is looked at.
        policy: what may be low.
        full: whether everything runs in float32 all the same.
        lenient: whether the users' checks and assertions let values pass.
    """

    def __init__(self, probe: Probe, policy: Policy, *, full: bool, lenient: bool = True) -> None:
        self._probe, self._policy, self._full, self._lenient = probe, policy, full, lenient
        self._trees: dict[tuple[bytes, str], Tree | None] = {}
        self._context: Any = None
        self.calls = 0  # of functions that were probed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for tree in self._trees.values():
            for copy in tree.copies.values() if tree else ():
                self._context.remove_function(copy)
        self._probe.close()

    def __call__(self, step: Callable[..., Any], *args: Any) -> Any:
        """What the step returns; the functions it calls run probed.

        Raises:
            MixdownError: it calls no function that could be probed.
        """
        before = self.calls
        with observed(lambda context, name, make, _: self.call(context, name, make)):
            result = step(*args)
        if self.calls == before:
            raise MixdownError(
                f"{_name(step)} called no tf.function that could be probed: put its work into a tf.function "
                f"(for Keras, compile with run_eagerly=False)."
            )
        return result

    def call(self, context: Any, name: bytes, make: Make) -> Any:
        """Make one call of a function, probed."""
        tree = self._tree(context, name)
        if tree is None:
            return make(name)
        self.calls += 1
        try:
            with unoptimized(context):
                return make(tree.name)
        except tf.errors.OpError as error:
            originals = {copy: original for original, copy in tree.copies.items()}
            name_originals(error, context, Twin(tree.name, originals, tree.plan, ""))
            raise
        finally:
            self._probe.collect(tree)

    def _tree(self, context: Any, name: bytes) -> Tree | None:
        """The probed copy of a function, made at its first call; None if it cannot be read."""
        key = (name, device_type(context.device_name) or machine_default())
        if key not in self._trees:
            self._context = context
            self._trees[key] = self._grow(name.decode(), key[1])
        return self._trees[key]

    def _grow(self, name: str, device: str) -> Tree | None:
        try:
            tree = grow(self._context, name, device, self._policy, full=self._full, lenient=self._lenient)
        except MixdownError as error:
            warn(f"Function {name} runs without probes: {error}")
            return None
        for sheet in (each for each in tree.sheets if not each.can_be_probed):
            warn(
                f"The ops of function {sheet.original} are not probed: it has the control flow of "
                f"TensorFlow 1 (Switch, Merge), in which an op may not run. Use tf.cond and tf.while_loop of "
                f"TensorFlow 2.",
            )
        self._probe.instrument(tree)
        for sheet in tree.sheets:
            self._context.add_function_def(sheet.function)
        return tree


def _name(step: Any) -> str:
    return str(getattr(step, "__name__", None) or step)
