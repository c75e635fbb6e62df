"""The laws of sessions: what must hold of a random v1 graph in mixed precision. Start with `check_session`."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from hypothesis import reject
from hypothesis import strategies as st
from tests.reliability.fuzz_functions import assert_bounds, bits, surface
from tests.reliability.fuzz_programs import Desk, Program, perform, results
from tests.reliability.fuzz_reference import Task
from tests.reliability.fuzz_traced import Traced, dtype_of, given, signature

import mixdown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixdown.core import Plan, Policy

v1 = tf.compat.v1


@dataclass(frozen=True)
class SessionSetting:
    """How a program is built and run as a v1 graph."""

    batch: int = 2
    seed: int = 0
    unknown: bool = False  # leave the size of the batch open
    modern: bool = True  # control flow as functions, variables as resources; else Switch, Merge, references
    derived: bool = False  # gradients, too
    by_name: bool = False  # feed and fetch by name
    grown: int = 0  # run after so many steps, then add the rest of the graph
    fed: str = ""  # also feed the result of this form, with what it is in float32


class BuiltProgram:
    """A program as a graph, and what it is run with."""

    def __init__(self, program: Program, setting: SessionSetting) -> None:
        self.program, self.setting = program, setting
        self.inputs = given(setting.batch, setting.seed)
        self.start = given(1, setting.seed + 1)["square"]
        self.task = Task(program, self.inputs, self.start, derived=setting.derived, updated=True)

    def run(self, also_fed: Any = None) -> tuple[dict[str, Any], list[Plan]]:
        """Build the graph and run it in a session: the results, what is then in the variable, and the plans."""
        with ExitStack() as stack:
            graph = stack.enter_context(tf.Graph().as_default())
            stack.enter_context(control_flow(modern=self.setting.modern))
            variable = v1.Variable(self.start, use_resource=self.setting.modern, name="variable")
            stage = Built(variable)
            fed = {
                form: v1.placeholder(spec.dtype, spec.shape, form)
                for form, spec in signature(self.inputs, unknown=self.setting.unknown).items()
            }
            desk = Desk({form: [value] for form, value in fed.items()} | {"sizes": [], "winner": []})
            session = stack.enter_context(v1.Session(graph=graph))
            feeds = {fed[form]: value for form, value in self.inputs.items()}
            plans = self._first_part(session, desk, stage, feeds)
            out = results(self.program, desk, stage, first=self.setting.grown)
            if also_fed is not None:
                feeds[out[self.setting.fed]] = also_fed
            out |= self._gradients(out["loss"], fed, variable)
            return self._fetched(session, out, feeds, variable), [*plans, *_plans(session)]

    def _first_part(self, session: Any, desk: Desk, stage: Built, feeds: dict[Any, Any]) -> list[Plan]:
        """Initialise the variable; if the graph is to grow, build and run a part of it."""
        session.run(v1.global_variables_initializer())
        if not self.setting.grown:
            return []
        perform(self.program.steps[: self.setting.grown], desk, stage)
        session.run(desk.pick("rows"), feeds)
        return _plans(session)

    def _gradients(self, loss: Any, fed: dict[str, Any], variable: Any) -> dict[str, Any]:
        if not self.setting.derived:
            return {}
        sources = {form: value for form, value in fed.items() if dtype_of(form).startswith("float")}
        sources["variable"] = variable
        zero = tf.UnconnectedGradients.ZERO
        found = tf.gradients(loss, list(sources.values()), unconnected_gradients=zero)
        return {f"by {name}": tf.convert_to_tensor(gradient) for name, gradient in zip(sources, found, strict=True)}

    def _fetched(self, session: Any, out: dict[str, Any], feeds: dict[Any, Any], variable: Any) -> dict[str, Any]:
        fetches = {name: value.name for name, value in out.items()} if self.setting.by_name else out
        named = {value.name: fed for value, fed in feeds.items()} if self.setting.by_name else feeds
        found = session.run(fetches, named)
        update = v1.assign_add(variable, out["square"])
        session.run(update, feeds)
        return found | {"variable": session.run(variable)}


class Built(Traced):
    """Builds a v1 graph. References cannot enter functions, so a variable of that kind is read outside."""

    def __init__(self, variable: Any) -> None:
        super().__init__(variable)
        self.value = variable.read_value()

    def read(self, label: str) -> Any:
        with tf.name_scope(label):
            return tf.identity(self.value)


@contextmanager
def control_flow(*, modern: bool) -> Iterator[None]:
    """Build control flow in the way of TensorFlow 2, or of TensorFlow 1."""
    if modern:
        yield
        return
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_control_flow_v2()


def settings_of_sessions() -> st.SearchStrategy[SessionSetting]:
    """Draw how to build and run a graph."""
    return st.builds(
        SessionSetting,
        batch=st.integers(1, 3),
        seed=st.integers(0, 2**16),
        unknown=st.booleans(),
        modern=st.booleans(),
        derived=st.booleans(),
        by_name=st.booleans(),
        grown=st.sampled_from([0, 0, 0, 1, 3]),
        fed=st.sampled_from(["", "", "rows", "image", "square"]),
    )


def _plans(session: Any) -> list[Plan]:
    twin = getattr(session, "_mixdown_twin", None)
    return [twin.plan] if twin is not None and twin.plan is not None else []


def check_session(program: Program, setting: SessionSetting, policy: Policy) -> None:
    """Run a program in float32, mixed, and in float32 again; assert all laws."""
    built = BuiltProgram(program, setting)
    try:
        before, none = built.run()
    except tf.errors.OpError:  # TensorFlow itself refuses: that is for TensorFlow to mend
        reject()
    assert none == []
    fed = before[setting.fed] if setting.fed else None
    with mixdown.rewriting(policy):
        mixed, plans = built.run(fed)
    after, none = built.run()
    assert none == []
    assert plans, "no session met the rewrite"
    assert surface(mixed) == surface(before), "structure, dtypes or shapes differ"
    assert bits(after) == bits(before), "float32 is not what it was before"
    if not any(plan.changes_anything for plan in plans):
        assert bits(mixed) == bits(before), "nothing is low, and yet something changed"
    assert_bounds(built.task, before, mixed, plans, policy.low)
