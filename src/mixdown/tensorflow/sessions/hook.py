"""The session boundary: a `tf.compat.v1.Session` runs a twin of its graph. Start with `install`.

TensorFlow's session finds what is fed, fetched and run by name. So the session underneath is made on the twin, which
has every node of the user's graph under its own name, while all Python code goes on to see the user's graph.
"""

import functools
import gc
from collections.abc import Callable
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from mixdown.core import Policy
from mixdown.errors import PolicyError
from mixdown.messages import warn
from mixdown.tensorflow.runtime.private import BaseSession, c_api, mixed_precision_global_state
from mixdown.tensorflow.sessions.feeds import FedCallable, doubled, doubled_outputs
from mixdown.tensorflow.sessions.tuned_twin import TunedSessionTwin
from mixdown.tensorflow.sessions.twin import SessionTwin

_TWIN = "_mixdown_twin"

_hooks: tuple[dict[str, Any], dict[str, Any]] | None = None  # TensorFlow's own methods by name, and ours
_twinned: WeakSet[Any] = WeakSet()
_left_alone: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # session -> why it runs float32
_current_policy: Callable[[], Policy | None] | None = None  # as `install` was given it
_lock = Lock()


def install(current_policy: Callable[[], Policy | None]) -> None:
    """Let every session that is made from now on ask for the policy in force there, and run a twin if there is one."""
    global _current_policy  # noqa: PLW0603 - TensorFlow's class is patched once for the whole process
    with _lock:
        _current_policy = current_policy
        if _hooks is None:
            _put_in()


def _put_in() -> None:
    """Patch TensorFlow's class, or leave it as it was if that is interrupted."""
    global _hooks  # noqa: PLW0603 - see install
    originals = {name: getattr(BaseSession, name) for name in ("__init__", *_METHODS)}
    ours = {name: _replace(originals[name], method) for name, method in _METHODS.items()}
    ours["__init__"] = _replace_init(originals["__init__"])
    try:
        _patch(ours)
        _hooks = originals, ours
    finally:
        if _hooks is None:
            _patch(originals)


def uninstall() -> bool:
    """Leave new sessions alone; give TensorFlow its methods back, unless an open session that runs a twin needs ours.

    Returns whether TensorFlow has its own methods.
    """
    global _hooks, _current_policy  # noqa: PLW0603 - see install
    with _lock:
        _current_policy = None
        if _hooks is None:
            return True
        if any(not session._closed for session in _twinned):
            return False
        originals, replacements = _hooks
        if any(getattr(BaseSession, name) is not ours for name, ours in replacements.items()):
            return False  # other code wrapped ours: removing ours would remove that as well
        _patch(originals)
        _hooks = None
        return True


def _patch(methods: dict[str, Any]) -> None:
    for name, method in methods.items():
        setattr(BaseSession, name, method)


def sessions_exist() -> bool:
    """Whether there is an open session that runs float32 and will go on to do so."""
    if not mixed_precision_global_state.non_mixed_precision_session_created():
        return False  # none was ever made, so there is no need to look at every object
    return _is_one_open() and (gc.collect() == 0 or _is_one_open())  # garbage does not count


def _is_one_open() -> bool:
    found = (thing for thing in gc.get_objects() if issubclass(type(thing), BaseSession))
    return any(not getattr(session, "_closed", True) and _twin_of(session) is None for session in found)


def seen() -> list[tuple[Any, SessionTwin | None, str]]:
    """Every session that was made while a policy was in force, with its twin, or with why it has none."""
    with _lock:
        twinned = [(session, _twin_of(session), "") for session in _twinned]
        return [*twinned, *((session, None, reason) for session, reason in _left_alone.items())]


def _twin_of(session: Any) -> SessionTwin | None:
    return getattr(session, _TWIN, None)


def _replace(original: Any, ours: Any) -> Any:
    """A method that is ours for sessions that run a twin, and TensorFlow's for others."""

    @functools.wraps(original)
    def method(session: Any, *arguments: Any, **keywords: Any) -> Any:
        twin = _twin_of(session)
        if twin is None:
            return original(session, *arguments, **keywords)
        return ours(original, session, twin, *arguments, **keywords)

    return method


def _replace_init(original: Any) -> Any:
    """A constructor that makes the session underneath on a twin if there is a policy."""

    @functools.wraps(original)
    def init(session: Any, target: Any = "", graph: Any = None, config: Any = None) -> None:
        policy = _current_policy() if _current_policy else None
        if policy is None or not (graph is None or isinstance(graph, tf.Graph)):
            original(session, target, graph, config)
            return
        user = tf.compat.v1.get_default_graph() if graph is None else graph
        twin = TunedSessionTwin(policy) if policy.strategy == "tuned" else SessionTwin(policy)
        original(session, target, twin.graph, config)
        session._graph = user
        # Without a configuration of its own, a session has TensorFlow's options for eager code.
        if config is not None and config.graph_options.rewrite_options.auto_mixed_precision == RewriterConfig.OFF:
            _make_plain(original, session)
            _left_alone[session] = "its configuration switches auto_mixed_precision off"
        else:
            setattr(session, _TWIN, twin)
            _twinned.add(session)

    return init


def _make_plain(original_init: Any, session: Any) -> None:
    """Put a session that has not run anything yet onto the user's graph."""
    BaseSession.close(session)
    # Taken out first: an interrupt must not leave a deleted session behind, which its finalizer would delete again.
    old, session._session = session._session, None
    c_api.TF_DeleteSession(old)
    session.__dict__.pop(_TWIN, None)
    _twinned.discard(session)
    original_init(session, session._target, session._graph, session._config)


def _extend_graph(original: Any, session: Any, twin: SessionTwin) -> None:
    if session._graph.version == twin.extended_to:
        return
    with session._graph._session_run_lock(), twin.lock:
        _sync(session, twin)
        if _twin_of(session) is None:
            original(session)
        else:
            c_api.ExtendSession(session._session)
            twin.extended_to = twin.version


def _sync(session: Any, twin: SessionTwin) -> None:
    if _twin_of(session) is None:
        return  # another thread found that it cannot have one
    try:
        if twin.is_empty:  # not earlier: a session that is never run need not reach its devices
            _choose_device(session, twin)
        twin.sync(session._graph)
    except Exception as error:  # noqa: BLE001 - whatever it is, the user's graph can run as it was
        if twin.is_empty:
            assert _hooks is not None  # noqa: S101 - or we would not be here
            _make_plain(_hooks[0]["__init__"], session)
            _left_alone[session] = str(error)
            warn(f"A session runs in float32: {error}")
        else:
            twin.sync_as_is(session._graph)
            warn(f"What was added to the graph of a session runs in float32: {error}")


def _choose_device(session: Any, twin: SessionTwin) -> None:
    types = sorted({device.device_type for device in session.list_devices()})
    if not any(map(twin.policy.admits, types)):
        raise PolicyError(
            f"it has devices of type {', '.join(types)}, and the policy admits {', '.join(twin.policy.devices)}. "
            f"To admit these, pass Policy(devices={tuple(types)!r})."
        )
    twin.default_device = "GPU" if "GPU" in types else "CPU"


def _do_call(original: Any, session: Any, twin: SessionTwin, function: Any, *arguments: Any) -> Any:
    def with_users_names(*inner: Any) -> Any:
        with twin.with_users_names():
            return function(*inner)

    return original(session, with_users_names, *arguments)


def _call_tf_sessionrun(original: Any, session: Any, twin: SessionTwin, options: Any, feeds: Any, *rest: Any) -> Any:
    fetches, targets, metadata = rest

    def run(which: Any, fetches: Any, targets: Any) -> Any:
        return original(session, options, doubled(which, feeds), fetches, targets, metadata)

    with twin.with_users_names():
        if isinstance(twin, TunedSessionTwin):
            return twin.run(session, run, feeds, fetches, targets)
        return run(twin, fetches, targets)


def _call_tf_sessionprun(original: Any, session: Any, twin: SessionTwin, handle: Any, feeds: Any, *rest: Any) -> Any:
    return original(session, handle, doubled(twin, feeds), *rest)


def _partial_run_setup(original: Any, session: Any, _twin: SessionTwin, fetches: Any, feeds: Any = None) -> Any:
    return original(_Setup(session), fetches, feeds)


class _Setup:
    """A session as `partial_run_setup` sees it: it announces more feeds than the user did."""

    def __init__(self, session: Any) -> None:
        self._real = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _do_call(self, function: Any, _session: Any, feeds: Any, *rest: Any) -> Any:
        self._real._extend_graph()  # may put the session onto another graph, so that the pointer passed is stale
        twin = _twin_of(self._real)
        feeds = feeds if twin is None else doubled_outputs(twin, feeds)
        return self._real._do_call(function, self._real._session, feeds, *rest)


def _make_callable_from_options(original: Any, session: Any, twin: SessionTwin, options: Any) -> Any:
    session._extend_graph()
    if _twin_of(session) is None:
        return original(session, options)
    return FedCallable(session, twin, options)


_METHODS: dict[str, Any] = {
    "_extend_graph": _extend_graph,
    "_do_call": _do_call,
    "_call_tf_sessionrun": _call_tf_sessionrun,
    "_call_tf_sessionprun": _call_tf_sessionprun,
    "partial_run_setup": _partial_run_setup,
    "_make_callable_from_options": _make_callable_from_options,
}
"""What stands in for BaseSession's methods in sessions that run a twin; the first argument is TensorFlow's own."""
