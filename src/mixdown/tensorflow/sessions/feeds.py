"""Feeds of a session that runs a twin: a tensor that was split is fed wherever the twin keeps it."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import tensorflow as tf

from mixdown.tensorflow.protos.wiring import source
from mixdown.tensorflow.runtime.private import c_api
from mixdown.tensorflow.sessions.tuned_twin import Cone
from mixdown.tensorflow.sessions.twin import SessionTwin


def doubled(twin: SessionTwin | Cone, feeds: Mapping[Any, Any]) -> dict[Any, Any]:
    """Values by tensor, with those that must be fed as well."""
    out = dict(feeds)
    for output, value in feeds.items():
        for tensor, _, low in twin.doubles(*_name(output)):
            out[tensor] = _as_low(twin, value, _name(output)) if low else value
    return out


def doubled_outputs(twin: SessionTwin, outputs: Iterable[Any]) -> list[Any]:
    """Tensors that will be fed, with those that must be fed as well."""
    return [tensor for output in outputs for tensor in (output, *(t for t, _, _ in twin.doubles(*_name(output))))]


class FedCallable:
    """A callable of TensorFlow's, by the user's description of it, that feeds more tensors than it is called with."""

    def __init__(self, session: Any, twin: SessionTwin, options: Any) -> None:
        _refuse_connections(twin, options)
        self._twin, self._feeds = twin, [source(feed) for feed in options.feed]
        self._more = [
            (position, tensor, low)
            for position, (name, port) in enumerate(self._feeds)
            for _, tensor, low in twin.doubles(name, port or 0)
        ]
        extended = deepcopy(options)
        extended.feed.extend(tensor for _, tensor, _ in self._more)
        self._callable = session._Callable(session, extended)

    def __call__(self, *values: Any, **keywords: Any) -> Any:
        """Run it with a value for every feed in the user's description."""
        more = [
            _as_low(self._twin, np.asarray(values[position]), self._feeds[position]) if low else values[position]
            for position, _, low in self._more
        ]
        with self._twin.with_users_names():
            return self._callable(*values, *more, **keywords)


def _name(output: Any) -> tuple[str, int]:
    return c_api.TF_OperationName(output.oper), output.index


def _as_low(twin: SessionTwin | Cone, value: Any, tensor: tuple[str, int | None]) -> Any:
    if value.dtype.kind != "f":
        raise TypeError(
            f"{tensor[0]}:{tensor[1]} runs in {twin.policy.low}, so it cannot be fed with a tensor handle: "
            f"feed the value, handle.eval()."
        )
    with np.errstate(over="ignore"):  # what is too large becomes infinite, as it does when TensorFlow casts
        return value.astype(tf.as_dtype(twin.policy.low).as_numpy_dtype)


def _refuse_connections(twin: SessionTwin, options: Any) -> None:
    for connection in options.tensor_connection:
        name, port = source(connection.to_tensor)
        if twin.doubles(name, port or 0):
            raise ValueError(
                f"{connection.from_tensor} cannot be connected to {connection.to_tensor}, which runs in "
                f"{twin.policy.low}: feed it, or keep it in float32 with policy.with_keep(name={name!r})."
            )
