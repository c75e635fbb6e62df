"""The laws of functions: what must hold of a random program in mixed precision. Start with `check_function`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from hypothesis import reject
from tests.reliability.fuzz_balls import OutOfRangeError
from tests.reliability.fuzz_discrete import UndecidedError
from tests.reliability.fuzz_programs import Desk, Program, results
from tests.reliability.fuzz_reference import Task, disagreements, expected, lowered
from tests.reliability.fuzz_traced import Traced, dtype_of, given, signature

import mixdown
from mixdown.tensorflow.calls import active_policy

if TYPE_CHECKING:
    from tests.reliability.fuzz_draws import Setting

    from mixdown.core import Plan, Policy


class Subject:
    """A program as a tf.function, with what it is called with and the variable it reads and writes."""

    def __init__(self, program: Program, setting: Setting) -> None:
        self.program, self.setting = program, setting
        self.inputs = given(setting.batch, setting.seed, texts=not setting.compiled)
        self.start = given(1, setting.seed + 1)["square"]
        self.variable = tf.Variable(self.start)
        self.task = Task(program, self.inputs, self.start, derived=bool(setting.tape))
        self.function = tf.function(
            self._traced,
            input_signature=[signature(self.inputs, unknown=setting.unknown)],
            jit_compile=setting.compiled or None,
            autograph=False,
        )

    def run(self) -> dict[str, Any]:
        """Call the function from the start: its results, the gradients, and what is then in the variable."""
        self.variable.assign(self.start)
        inputs = {form: tf.constant(value) for form, value in self.inputs.items()}
        out = self._derived_outside(inputs) if self.setting.tape == "outside" else self.function(inputs)
        return out | {"variable": self.variable.read_value()}

    def _derived_outside(self, inputs: dict[str, Any]) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            sources = self._watched(tape, inputs)
            out = self.function(inputs)
        return out | _gradients(tape, out["loss"], sources)

    def _traced(self, inputs: dict[str, Any]) -> dict[str, Any]:
        desk = Desk({form: [value] for form, value in inputs.items()} | {"sizes": [], "winner": []})
        if self.setting.tape != "inside":
            return results(self.program, desk, Traced(self.variable))
        with tf.GradientTape() as tape:
            sources = self._watched(tape, inputs)
            out = results(self.program, desk, Traced(self.variable))
        return out | _gradients(tape, out["loss"], sources)

    def _watched(self, tape: tf.GradientTape, inputs: dict[str, Any]) -> dict[str, Any]:
        floats = {form: value for form, value in inputs.items() if dtype_of(form).startswith("float")}
        tape.watch(list(floats.values()))
        return floats | {"variable": self.variable}


def _gradients(tape: tf.GradientTape, loss: Any, sources: dict[str, Any]) -> dict[str, Any]:
    found = tape.gradient(loss, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return {f"by {name}": tf.convert_to_tensor(gradient) for name, gradient in found.items()}


def check_function(program: Program, setting: Setting, policy: Policy) -> None:
    """Run a program in float32, mixed, and in float32 again; assert all laws."""
    subject = Subject(program, setting)
    try:
        before = subject.run()
    except tf.errors.OpError:  # TensorFlow itself refuses: that is for TensorFlow to mend
        reject()
    with mixdown.rewriting(policy):
        mixed, plans = _mixed(subject)
        again = subject.run()
    after = subject.run()
    assert surface(mixed) == surface(before), "structure, dtypes or shapes differ"
    assert bits(after) == bits(before), "float32 is not what it was before"
    assert bits(again) == bits(mixed), "two runs of one twin differ"
    if not any(plan.changes_anything for plan in plans):
        assert bits(mixed) == bits(before), "nothing is low, and yet something changed"
    assert_bounds(subject.task, before, mixed, plans, policy.low)


def _mixed(subject: Subject) -> tuple[dict[str, Any], list[Plan]]:
    """Run a subject in the scope we are in: the results and the plans that were made for it."""
    twins = active_policy.current()
    assert twins is not None
    earlier = {name for name, _, _ in twins.made()}
    out = subject.run()
    made = [twin for name, _, twin in twins.made() if name not in earlier]
    assert made, "no function met the rewrite"
    return out, [twin.plan for twin in made if twin.plan is not None]


def assert_bounds(task: Task, before: dict[str, Any], mixed: dict[str, Any], plans: list[Plan], low: str) -> None:
    """Assert that float32 and mixed results lie in the balls of the plans, where those promise anything.

    Float32 rounds less than what the plans allow, so it lies in the same balls; if not, the balls would be wrong.
    """
    try:
        balls = expected(task, lowered(plans, low))
    except (OutOfRangeError, UndecidedError):
        return
    for found in (before, mixed):
        outside = disagreements(found, balls)
        assert not outside, outside


def surface(results: dict[str, Any]) -> dict[str, Any]:
    """What a caller can rely on whatever the values: names, dtypes and shapes."""
    return {name: (value.dtype, tuple(np.shape(value))) for name, value in results.items()}


def bits(results: dict[str, Any]) -> dict[str, Any]:
    """The values, such that only bit-identical ones are equal."""
    arrays = {name: np.asarray(value) for name, value in results.items()}
    return {name: array.tolist() if array.dtype == object else array.tobytes() for name, array in arrays.items()}
