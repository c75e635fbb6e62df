"""Sessions under `Policy(strategy="tuned")`: each run is made once, by one of the candidates, on the same variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from tests.tuning.planted_clock import low_is_faster, plant

import mixdown
from mixdown.tensorflow.sessions import hook, tuned_twin
from mixdown.tuning import memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

v1 = tf.compat.v1
POLICY = mixdown.Policy(low="bfloat16", devices="all", strategy="tuned")
X = np.random.default_rng(0).standard_normal((32, 8)).astype("float32")
Y = X[:, :1].copy()


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache folder, and a clock by which whatever is 16-bit takes 0.8 of float32."""
    monkeypatch.setenv(memory.VARIABLE, str(tmp_path))
    plant(monkeypatch, tuned_twin, low_is_faster)


class Program:
    """A training step as in TensorFlow 1, with a reference variable and a resource variable."""

    def __init__(self) -> None:
        self.x = v1.placeholder(tf.float32, [None, 8], name="x")
        self.y = v1.placeholder(tf.float32, [None, 1], name="y")
        first = v1.get_variable("first", [8, 16], initializer=v1.ones_initializer(), use_resource=False)
        last = v1.get_variable("last", [16, 1], initializer=v1.ones_initializer(), use_resource=True)
        self.hidden = tf.nn.relu(tf.matmul(self.x, first * 0.1), name="hidden")
        self.made = tf.matmul(self.hidden, last * 0.1, name="made")
        self.loss = tf.reduce_mean((self.made - self.y) ** 2, name="loss")
        self.step = v1.train.get_or_create_global_step()
        self.train = v1.train.GradientDescentOptimizer(0.05).minimize(self.loss, global_step=self.step)
        self.init = v1.global_variables_initializer()
        self.feeds = {self.x: X, self.y: Y}


@pytest.fixture
def program() -> Iterator[Program]:
    with tf.Graph().as_default():
        yield Program()


def session(policy: mixdown.Policy = POLICY) -> Any:
    with mixdown.rewriting(policy):
        return v1.Session()


def twin_of(made: Any) -> Any:
    return next(twin for each, twin, _ in hook.seen() if each is made)


def test_a_step_is_made_once_a_run_and_ends_where_float32_ends(program: Program) -> None:
    with v1.Session() as plain:
        plain.run(program.init)
        exact = [plain.run([program.train, program.loss], program.feeds)[1] for _ in range(150)]
    with session() as tuned:
        tuned.run(program.init)
        losses = [tuned.run([program.train, program.loss], program.feeds)[1] for _ in range(150)]
        assert tuned.run(program.step) == 150
        found = twin_of(tuned).tuned
    np.testing.assert_allclose(losses, exact, rtol=0.05)
    assert losses != exact
    assert "bfloat16" in found.kept
    assert found.function == "run of GradientDescent, loss:0"


def test_the_next_session_starts_with_what_was_kept(program: Program) -> None:
    for times in (150, 1):
        with session() as tuned:
            tuned.run(program.init)
            for _ in range(times):
                tuned.run([program.train, program.loss], program.feeds)
            found = twin_of(tuned)
            assert "bfloat16" in found.tuned.kept
    assert found.choices() == {found.tuned.graph: found.tuned.policy}
    frozen = mixdown.tuned_policy(POLICY)
    assert dict(frozen.choices)[found.tuned.graph] == found.tuned.policy


@pytest.mark.parametrize("times", [10, 150])  # while it is tuned, and after
def test_what_is_fed_and_fetched_is_what_the_user_knows(program: Program, times: int) -> None:
    with session() as tuned:
        tuned.run(program.init)
        for _ in range(times):
            tuned.run([program.train, program.loss], program.feeds)
            hidden, made = tuned.run([program.hidden, program.made], {program.x: X})
            assert hidden.dtype == made.dtype == np.float32
        fed = tuned.run(program.made, {program.hidden: np.full((2, 16), 0.5, "float32")})
        weights = tuned.run("last/Read/ReadVariableOp:0") * 0.1
        np.testing.assert_allclose(fed, np.full((2, 16), 0.5) @ weights, rtol=0.02)


@pytest.mark.parametrize("times", [10, 150])
def test_what_is_added_later_runs_with_the_rest_and_nothing_runs_twice(program: Program, times: int) -> None:
    with session() as tuned:
        tuned.run(program.init)
        for _ in range(times):
            tuned.run([program.train, program.loss], program.feeds)
        before = tuned.run(program.step)
        with tf.control_dependencies([program.train]):
            after = tf.identity(program.step) + 0
        twice = program.loss * 2.0
        _, counted, doubled, loss = tuned.run([program.train, after, twice, program.loss], program.feeds)
        assert counted == before + 1
        assert doubled == pytest.approx(2 * loss)
        assert tuned.run(program.step) == before + 1


def test_a_loop_of_tensorflow_1_runs_in_every_candidate() -> None:
    with tf.Graph().as_default():
        v1.disable_control_flow_v2()
        x = v1.placeholder(tf.float32, [4, 4])
        _, made = v1.while_loop(
            lambda count, _: count < 3, lambda count, y: (count + 1, tf.nn.relu(tf.matmul(y, x))), [tf.constant(0), x]
        )
        v1.enable_control_flow_v2()
        with v1.Session() as plain:
            exact = plain.run(made, {x: np.full((4, 4), 1 / 3, "float32")})
        with session() as tuned:
            for _ in range(120):
                found = tuned.run(made, {x: np.full((4, 4), 1 / 3, "float32")})
                np.testing.assert_allclose(found, exact, rtol=0.03)


def test_a_graph_that_cannot_be_planned_runs_as_it_is(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(tuned_twin.TunedSessionTwin, "_rewritten", fail)
    with session() as tuned:
        with pytest.warns(mixdown.MixdownWarning, match="A session runs in float32: planted"):
            tuned.run(program.init)
        for _ in range(3):  # nothing is said again
            tuned.run([program.train, program.loss], program.feeds)


def test_the_report_shows_what_a_session_has_timed(program: Program) -> None:
    with session() as tuned:
        tuned.run(program.init)
        for _ in range(150):
            tuned.run([program.train, program.loss], program.feeds)
        number = [each for each, _, _ in hook.seen()].index(tuned) + 1  # other tests may have left some open
        (graph,) = [each for each in mixdown.report().graphs if each.name == f"session {number}"]
    assert {"float32", "bfloat16"} < {trial.name for trial in graph.trials}
    assert graph.tuned.startswith("kept bfloat16")
    assert graph.rewritten


def test_an_error_names_the_users_nodes(program: Program) -> None:
    with session() as tuned:
        tuned.run(program.init)
        tuned.run([program.train, program.loss], program.feeds)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            tuned.run([program.train, program.loss], {program.x: X, program.y: Y[:5]})
    assert "__mixdown" not in str(caught.value)
