"""Which sessions run a twin, for how long, and what becomes of the rest."""

from __future__ import annotations

import functools
import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.config_pb2 import CallableOptions
from tensorflow.python.client.session import BaseSession
from tests.tensorflow.sessions.session_lab import (
    FULL,
    LOW,
    POLICY,
    Trace,
    close_sessions,
    enabled,
    in_a_process_of_its_own,
    plainly,
    square,
    v1,
)

from mixdown.core import Policy
from mixdown.errors import MixdownWarning
from mixdown.tensorflow.runtime.private import c_api
from mixdown.tensorflow.sessions import hook

if TYPE_CHECKING:
    from collections.abc import Iterator

ORIGINALS = {name: getattr(BaseSession, name) for name in ("__init__", *hook._METHODS)}


@pytest.fixture(autouse=True, scope="module")
def nothing_left_open() -> None:
    close_sessions()


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph
    assert hook.uninstall()


def is_low(session: Any) -> bool:
    """Whether a session computes in float16, seen from a product that only float32 can hold."""
    with session.graph.as_default():
        return bool(np.isinf(session.run(square("probe"))).all())


def test_a_session_made_without_a_policy_is_left_alone() -> None:
    hook.install(lambda: None)
    with v1.Session() as session:
        assert not is_low(session)


def test_a_session_that_turns_mixed_precision_off_is_left_alone() -> None:
    with enabled(), v1.Session(config=plainly(mixed=False)) as session:
        assert not is_low(session)


def test_a_session_without_a_configuration_is_not_left_alone_because_tensorflows_own_pass_is_off() -> None:
    """`mixdown doctor` tells people to switch it off."""
    tf.config.optimizer.set_experimental_options({"auto_mixed_precision": False})
    with enabled(), v1.Session() as session:
        assert is_low(session)


def test_the_policy_is_the_one_in_force_when_the_session_was_made() -> None:
    policies: list[Policy | None] = [POLICY]
    hook.install(lambda: policies[0])
    before = v1.Session()
    policies[0] = None
    after = v1.Session()
    with before, after:
        assert is_low(before)
        assert not is_low(after)
        assert is_low(before)  # its graph grew after the flip


def test_bfloat16_sessions_round_as_bfloat16_does() -> None:
    with enabled(Policy(low="bfloat16", devices="all")), v1.Session() as session:
        one = tf.constant([[1.0]])
        product = tf.matmul(tf.constant([[1.001]]), one)
        again = tf.matmul(tf.nn.relu(product), one)
        assert session.run([product, again]) == [[[1.0]], [[1.0]]]
        assert session.run(again, {product: [[70001.0]]}) == [[70144.0]]


def test_an_op_on_a_device_that_the_policy_leaves_alone_stays_full() -> None:
    config = plainly()
    config.allow_soft_placement = True
    with enabled(Policy(devices=("CPU",))), v1.Session(config=config) as session:
        with tf.device("/device:GPU:0"):
            elsewhere = square("elsewhere")
        here = square("here")
        trace = Trace(session, [elsewhere, here])
        assert trace.types("MatMul") == {"elsewhere": FULL, "here__mixdown": LOW}
        np.testing.assert_array_equal(trace.values, [[[90000.0]], [[np.inf]]])


def test_installing_twice_patches_once() -> None:
    hook.install(lambda: POLICY)
    ours = {name: getattr(BaseSession, name) for name in ORIGINALS}
    hook.install(lambda: POLICY)
    assert ours == {name: getattr(BaseSession, name) for name in ORIGINALS}


def test_methods_are_given_back_once_no_open_session_needs_ours() -> None:
    with enabled():
        session = v1.Session()
    assert not hook.uninstall()
    assert is_low(session)
    session.close()
    assert hook.uninstall()
    assert {name: getattr(BaseSession, name) for name in ORIGINALS} == ORIGINALS
    with v1.Session() as plain:
        assert not is_low(plain)


def test_methods_that_somebody_else_wrapped_are_left_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    with enabled():
        with monkeypatch.context() as patch:
            patch.setattr(BaseSession, "_do_call", functools.partialmethod(BaseSession._do_call))
            assert not hook.uninstall()
        assert hook.uninstall()


def test_a_twin_goes_with_its_session() -> None:
    with enabled():
        session = v1.Session()
        assert is_low(session)
        twin, graph = weakref.ref(session._mixdown_twin), weakref.ref(session._mixdown_twin.graph)
        session.close()
        del session
        gc.collect()
        assert twin() is None
        assert graph() is None


# TensorFlow's session trips over its own destructor when its constructor refused an argument.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_wrong_arguments_are_refused_as_ever() -> None:
    with enabled():
        with pytest.raises(TypeError, match=r"must be a tf\.Graph"):
            v1.Session(graph="graph")
        with pytest.raises(TypeError, match=r"must be a tf\.ConfigProto"):
            v1.Session(config="config")
        session = v1.Session()
        for run in (session.run, session.partial_run_setup):
            with pytest.raises(RuntimeError, match="graph is empty"):
                run("nothing")
        square("product")
        session.close()
        for run in (session.run, session.partial_run_setup):
            with pytest.raises(RuntimeError, match="closed Session"):
                run("product:0")


def test_a_session_is_not_reached_before_it_is_run() -> None:
    with enabled(), v1.Session("grpc://localhost:1"):
        pass  # nobody listens there


def test_sessions_exist_while_a_plain_one_is_open() -> None:
    script = """
import tensorflow as tf
from mixdown.tensorflow.runtime.private import c_api
from mixdown.tensorflow.sessions import hook
from tests.tensorflow.sessions.session_lab import enabled
print(hook.sessions_exist())
with tf.Graph().as_default():
    with enabled(), tf.compat.v1.Session():
        print(hook.sessions_exist())
    session = tf.compat.v1.Session()
    print(hook.sessions_exist())
    session.close()
    print(hook.sessions_exist())
    forgotten = [tf.compat.v1.Session()]
    forgotten.append(forgotten)
    del forgotten
    print(hook.sessions_exist())
"""
    assert in_a_process_of_its_own("-c", script).split() == ["False", "False", "True", "False", "False"]


FAILURES = {
    "unreadable": ("read", "A session runs in float32: the graph is broken"),
    "too large": ("as_graph_def", "A session runs in float32: GraphDef cannot be larger than 2GB"),
    "no device": ("device", r"A session runs in float32: it has devices of type CPU, and the policy admits GPU. "),
}


def fail(patch: pytest.MonkeyPatch, where: str) -> Policy:
    """Make the rewrite fail somewhere; returns the policy to do it with."""
    if where == "device":
        return Policy()
    if where == "read":
        patch.setattr("mixdown.tensorflow.sessions.twin.read", lambda *_, **__: error("the graph is broken"))
    else:
        patch.setattr(tf.Graph, where, lambda *_: error("GraphDef cannot be larger than 2GB."))
    return POLICY


def error(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize("where", FAILURES)
@pytest.mark.parametrize("first", ["run", "partial_run", "callable", "described"])
def test_what_cannot_be_rewritten_runs_in_float32_and_says_why(
    where: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, message = FAILURES[where]
    with monkeypatch.context() as patch, enabled(fail(patch, name)), v1.Session() as session:
        product = square("product")
        with pytest.warns(MixdownWarning, match=message) as warned:
            assert use(session, product, first) == [[90000.0]]
        assert len(warned) == 1
        assert warned[0].filename == __file__
        assert not is_low(session)


def use(session: Any, product: Any, way: str) -> Any:
    """A fetched value, by one of the ways to run a session."""
    match way:
        case "run":
            return session.run(product)
        case "partial_run":
            return session.partial_run(session.partial_run_setup([product]), product)
        case "callable":
            return session.make_callable(product)()
        case _:
            return session._make_callable_from_options(CallableOptions(fetch=[product.name]))()[0]


def test_a_session_underneath_is_deleted_once_even_if_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[object] = []

    def delete(underneath: object) -> None:
        deleted.append(underneath)
        raise KeyboardInterrupt

    hook.install(lambda: Policy(devices=("TPU",)))  # no session has one: it is put back onto the user's graph
    session, fetched = v1.Session(), square()
    real = session._session
    with monkeypatch.context() as patch:
        patch.setattr(c_api, "TF_DeleteSession", delete)
        with pytest.raises(KeyboardInterrupt):
            session.run(fetched)
    assert deleted == [real]
    assert session._session is None  # or its finalizer would delete it again
    c_api.TF_DeleteSession(real)


def test_growth_that_cannot_be_rewritten_runs_in_float32_and_says_why_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, enabled(), v1.Session(config=plainly()) as session:
        old = square("old")
        assert np.isinf(session.run(old)).all()
        fail(patch, "read")
        new = tf.matmul(tf.ones([1, 1]), square("new"))
        message = "What was added to the graph of a session runs in float32: the graph is broken"
        with pytest.warns(MixdownWarning, match=message) as warned:
            assert session.run(new) == [[90000.0]]
        assert len(warned) == 1
        assert not is_low(session)
        assert session.run(tf.function(lambda: square("inside"))()) == [[90000.0]]
        assert session.run(tf.nn.relu(old) * 0 + 1, {old: [[1.0]]}) == [[1.0]]
        assert np.isinf(session.run(old)).all()


def test_growth_that_asks_for_nothing_low_is_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, enabled(), v1.Session() as session:
        product = square("product", 2.0)
        session.run(product)
        fail(patch, "read")  # would warn
        assert session.run(tf.nn.relu(product) + tf.exp(product * 0)) == [[5.0]]


def test_misuse_gets_a_message() -> None:
    with enabled(), v1.Session() as session:
        product = square("product")
        after = tf.nn.relu(product)
        session.run(after)
        handle = session.run(v1.get_session_handle(tf.constant([[2.0]])))
        with pytest.raises(TypeError, match=r"product:0 runs in float16, .* feed the value, handle.eval\(\)"):
            session.run(after, {product: handle})
        options = CallableOptions(fetch=[after.name])
        options.tensor_connection.add(from_tensor="product_operand:0", to_tensor="product:0")
        with pytest.raises(ValueError, match=r"product_operand:0 cannot be connected to product:0.*with_keep"):
            session._make_callable_from_options(options)
